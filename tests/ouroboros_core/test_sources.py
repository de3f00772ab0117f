"""Who proposed a token: each source has its own look."""

from ouroboros_core import sources
from ouroboros_core.sources import Source


def test_every_source_has_a_look_of_its_own() -> None:
    keys = [sources.key_of(s) for s in Source if s not in (Source.CONTEXT, Source.WINDOW)]
    assert all(key in sources.LOOKS for key in keys)
    assert len({look.glyph for look in sources.LOOKS.values()}) == len(sources.LOOKS)
    assert len({look.colour for look in sources.LOOKS.values()}) == len(sources.LOOKS)
