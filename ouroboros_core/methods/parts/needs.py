"""Needs of methods besides the target, and remedies for a missing one."""

from __future__ import annotations

from enum import StrEnum


class Need(StrEnum):
    """A resource that a method may need or use besides the target."""

    DRAFT_MODEL = "draft model"
    EAGLE = "EAGLE head"
    EAGLE3 = "EAGLE-3 head"
    MTP_HEAD = "multi-token prediction head"
    MEDUSA = "Medusa heads"
    GLIDE = "GliDe draft"
    PARALLEL = "parallel drafter"
    DSPARK = "block drafter"
    CORPUS = "corpus"
    MEMORY = "memory of earlier runs"
    PREDICTED_OUTPUT = "predicted output"
    SELF_DRAFT = "target with skippable layers"
    GENERATE = "target in transformers"
    HF_DRAFT = "draft model in transformers"
    EARLY_EXIT = "target that transformers can end early"
    TRANSLATED = "draft model of any tokenizer"
    SHARED_TOKENS = "draft model with some of the target's tokens"
    MTP = "target with MTP layers in its files"
    BLOCK_DRAFT = "DFlash drafter of the target"
    CANDIDATES = "candidate generator"

    @property
    def flag(self) -> str:
        """Return the command-line option for it."""
        return _FLAGS[self]

    @property
    def phrase(self) -> str:
        """Return the name with its article, or the plural."""
        if self.value.endswith("heads"):
            return self.value
        return f"{'an' if self.value[0] in 'AEIOUe' else 'a'} {self.value}"


_FLAGS = {
    **dict.fromkeys((Need.DRAFT_MODEL, Need.HF_DRAFT, Need.TRANSLATED), "--draft"),
    **dict.fromkeys((Need.SHARED_TOKENS, Need.BLOCK_DRAFT), "--draft"),
    Need.MTP: "--target",
    **dict.fromkeys((Need.EAGLE, Need.EAGLE3, Need.MTP_HEAD), "--head"),
    **dict.fromkeys((Need.MEDUSA, Need.GLIDE, Need.PARALLEL, Need.DSPARK), "--head"),
    **dict.fromkeys((Need.SELF_DRAFT, Need.GENERATE, Need.EARLY_EXIT), "--target"),
    Need.CORPUS: "--corpus",
    Need.MEMORY: "--memory",
    Need.PREDICTED_OUTPUT: "--prediction",
    Need.CANDIDATES: "candidate_generator=, in Python",
}
REMEDIES = {
    Need.DRAFT_MODEL: "name one with --draft",
    Need.EAGLE: "one trained for this target: name one with --head, train one (train eagle)",
    Need.EAGLE3: "one trained for this target: name one with --head, train one (train eagle3)",
    Need.MTP_HEAD: "name a target whose files bring one, or train one for it (train mtp)",
    Need.MEDUSA: "name a folder with --head, train some for this target (train medusa)",
    Need.GLIDE: "name its folder with --head, train one for this target (train glide)",
    Need.PARALLEL: "name its folder with --head, train one for this target (train parallel)",
    Need.DSPARK: "name its folder with --head, train one for this target (train dspark)",
    Need.CORPUS: "name one with --corpus, make one (sam build)",
    Need.SELF_DRAFT: "name one with --target, such as Llama, Qwen, Mistral, Gemma, Phi-3 or GPT-2",
    Need.GENERATE: "name one with --target",
    Need.HF_DRAFT: "name one with --draft",
    Need.EARLY_EXIT: "name one with --target, such as Llama, Qwen, Mistral, Gemma or Phi-3",
    Need.TRANSLATED: "name one with --draft",
    Need.SHARED_TOKENS: "name one with --draft",
    Need.MTP: "name one with --target, such as DeepSeek-V3 or GLM-4.5",
    Need.BLOCK_DRAFT: "name one with --draft",
    Need.CANDIDATES: "in Python, give ouroboros_core.generate one as candidate_generator",
}
"""Remedies for a missing resource."""

HEAD_KINDS = {
    Need.EAGLE: "eagle",
    Need.EAGLE3: "eagle3",
    Need.MTP_HEAD: "mtp",
    Need.MEDUSA: "medusa",
    Need.GLIDE: "glide",
    Need.PARALLEL: "parallel",
    Need.DSPARK: "dspark",
}
"""The kind of head that meets a need, by the name in the head's folder."""

ASSISTED = {
    Need.GENERATE: "prompt_lookup",
    Need.HF_DRAFT: "assisted",
    Need.EARLY_EXIT: "early_exit",
    Need.TRANSLATED: "universal",
    Need.SHARED_TOKENS: "shared_tokens",
    Need.MTP: "mtp",
    Need.BLOCK_DRAFT: "dflash",
    Need.CANDIDATES: "candidates",
}
"""The candidate generator of transformers that meets a need."""

SHARING = {Need.DRAFT_MODEL, Need.HF_DRAFT}
"""Needs that a draft model with a different vocabulary does not meet."""
