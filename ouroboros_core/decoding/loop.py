"""The one loop of all methods: propose, evaluate, verify, learn; one Step per target pass."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from ouroboros_core.decoding.recorder import Recorder
from ouroboros_core.errors import InvalidInput
from ouroboros_core.interfaces import LanguageModel
from ouroboros_core.methods.parts.base import Context, Method, TokenizedPrompt, VerificationResult
from ouroboros_core.models.processed import ProcessedEvaluation
from ouroboros_core.sampling import Sampler
from ouroboros_core.trace.trace import Seconds, Step
from ouroboros_core.tree import TokenTree, truncate


def check_length(prompt: Sequence[int], max_new_tokens: int, model: LanguageModel) -> None:
    """Raise InvalidInput unless the prompt and its continuation fit the model."""
    if not prompt:
        raise InvalidInput("the prompt has no tokens; write at least one character")
    if max_new_tokens < 0:
        raise InvalidInput(f"max_new_tokens must be at least 0, got {max_new_tokens}")
    room = model.max_length - len(prompt)
    if room < max_new_tokens:
        raise InvalidInput(
            f"the prompt has {len(prompt)} tokens and {max_new_tokens} are to follow, but "
            f"{model.name} has room for {model.max_length}: shorten the prompt"
            + (f" or ask for at most {room}" if room > 0 else "")
        )
    outside = next((t for t in prompt if not 0 <= t < model.vocabulary), None)
    if outside is not None:
        raise InvalidInput(
            f"token id {outside} is outside the vocabulary of {model.name}, 0 to "
            f"{model.vocabulary - 1}"
        )


def decode(
    model: LanguageModel,
    method: Method,
    prompt: Sequence[int],
    *,
    max_new_tokens: int,
    sampler: Sampler,
    stop_tokens: AbstractSet[int] = frozenset(),
    recorder: Recorder | None = None,
) -> Iterator[Step]:
    """Continue `prompt` (token ids) by up to `max_new_tokens`, ending after the first stop token,
    which is emitted.

    The text is that of plain decoding with the same sampler, whatever the method proposes, unless
    the sampler's acceptance rule declares otherwise. The clocks run only inside the loop: they do
    not count the work of a consumer between two steps, and not that of a `recorder`, which keeps
    the models' probabilities. Raises InvalidInput if prompt and continuation do not fit.
    """
    check_length(prompt, max_new_tokens, model)
    tokens = tuple(prompt)
    end = len(tokens) + max_new_tokens
    if len(tokens) == end:
        return
    # A method may have a separate sampler, with which its draft draws the same noise.
    for drawing in (sampler, method.resources.sampler):
        drawing.begin(tokens)
    clock = time.perf_counter
    began = clock()
    _begin(model, method, tokens, max_new_tokens)
    prefilled = clock()
    prefill = prefilled - began
    resumed, index, stopped = prefilled, 0, False
    # If a draft model writes alone, its passes are the steps.
    drafter = None if method.drafter is model else method.drafter
    while len(tokens) < end and not stopped:
        context = Context(tokens, end - len(tokens), index)
        draft_passes, draft_rows = (drafter.passes, drafter.rows) if drafter else (0, 0)
        proposing, drawn_before = clock(), sampler.drawing.seconds
        tree = method.propose(context)  # from a Controller if an amount is 'auto'
        proposed, drawn_proposing = clock(), sampler.drawing.seconds
        _check_proposal(tree, context, model)
        evaluation = model.evaluate(tokens, tree)  # one forward pass, see CausalLM.evaluate
        path, target_token = sampler.judge(tree, evaluation, len(tokens) - 1)
        if isinstance(evaluation, ProcessedEvaluation):
            evaluation.close()
        verified, drawn_verifying = clock(), sampler.drawing.seconds
        accepted, last = truncate(tree, path, target_token, stop_tokens, context.remaining)
        learning = clock()
        result = VerificationResult.whole_step(context, tree, evaluation, accepted, last)
        method.learn(result)
        learned = clock()
        emitted = result.emitted
        tokens += emitted
        stopped = emitted[-1] in stop_tokens
        phases = proposed - proposing, verified - proposed, learned - learning
        seconds = Seconds(
            prefill,
            *phases,
            host=max(0.0, clock() - resumed - sum(phases)),
            draft_sampling=drawn_proposing - drawn_before,
            verify_sampling=drawn_verifying - drawn_proposing,
        )
        notes = method.notes
        yield Step(
            index=index,
            tree=tree.without_window(),
            path=accepted,
            target_token=last,
            width=len(tree),
            seconds=seconds,
            draft_passes=drafter.passes - draft_passes if drafter else 0,
            draft_rows=drafter.rows - draft_rows if drafter else 0,
            pool_size=notes.pool_size,
            writer=method.writer,
            choice=notes.decision,
            judged=recorder.look(tree, evaluation, accepted, last, len(context.tokens))
            if recorder
            else (),
            window=tree.window if recorder else (),
            draft_rows_saved=notes.draft_rows_saved,
        )
        resumed, index, prefill = clock(), index + 1, 0.0


def _begin(
    model: LanguageModel, method: Method, prompt: tuple[int, ...], max_new_tokens: int
) -> None:
    model.forget()
    model.reserve(len(prompt) + max_new_tokens)
    method.start(TokenizedPrompt(prompt, partial(model.prefill, prompt)), max_new_tokens)
    model.prefill(prompt)


def _check_proposal(tree: TokenTree, context: Context, model: LanguageModel) -> None:
    """Assert the promises of a method that only a bug breaks."""
    assert tree.tokens[0] == context.root, "the tree must hang off the last token of the context"
    assert all(0 <= token < model.vocabulary for token in tree.tokens), (
        "a proposed token is outside the target's vocabulary"
    )
