"""Batches and experts, by hand."""

from tests.visualize.learn.recorded import chapter_of, says


def test_every_number_is_that_of_the_run_which_is_shown() -> None:
    """With the sliders as they stand: a draft pass costs 0.3 and 70% of the guesses are right; 256
    rows of plain decoding and 5 rows of one answer are free, 1280 rows are not."""
    tokens = 1 + 0.7 + 0.49 + 0.343 + 0.2401
    facts = {
        "experts": 128,
        "active": 8,
        "few": 128 - 128 * (120 / 128) ** 5,
        "many": 128 - 128 * (120 / 128) ** 64,
        "few_rows": 5,
        "many_rows": 64,
        "rows_each": 64 * 8 / 126,
        "free": 295,
        "gamma": 4,
        "answers": 256,
        "batch_rows": 256 * 5,
        "batch_pass": 1280 / 295,
        "batch_speedup": tokens / (4 * 0.3 + 1280 / 295),
        "one_speedup": tokens / (4 * 0.3 + 1),
    }
    says(chapter_of("batches"), facts)
