"""The folder to push as a repository of the Hugging Face Hub, so that `model.generate(...,
custom_generate="name/ouroboros", trust_remote_code=True)` decodes with this project.

python -m visualize.deploy.hub FOLDER [--package WHERE]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import assets
from ouroboros_core.methods.parts.base import Method
from ouroboros_core.methods.parts.needs import ASSISTED, Need
from ouroboros_core.progress import accept_any_text
from visualize.deploy.static_site import make_way

MARK = "custom_generate"
"""A folder that has this one in it was written by this module."""
PACKAGE = "ouroboros-core"
"""The source that pip installs from, unless another one is named."""
NEEDED = ("numpy", "psutil", "pydantic", "safetensors", "torch", "transformers")
"""The packages of pyproject.toml without which nothing is decoded."""
FRONT: dict[str, Any] = {
    "library_name": "transformers",
    "license": "apache-2.0",
    "tags": ["custom_generate", "speculative-decoding", "lookahead-decoding", "text-generation"],
}
LOOP = '''"""Ouroboros as the decoding loop of transformers' `generate`."""

try:
    from ouroboros_core import generate as _generate
except ImportError as error:
    raise ImportError(
        "this decoding loop is the package ouroboros-core, which is not installed: "
        "pip install {package}"
    ) from error


def generate(model, **arguments):
    """The result of `model.generate`; the README has the additional arguments."""
    return _generate(model, **arguments)
'''
README = """# Speculative decoding for `generate`: {count} methods, one loop

A decoding loop for causal language models of transformers. Methods guess tokens ahead - by a draft model, by copying, by lookahead - and the
model checks all guesses in one forward pass. The greedy text is that of `generate`, with its logits processors and stopping criteria;
sampling keeps the distribution.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("HuggingFaceTB/SmolLM2-360M-Instruct")
tokenizer = AutoTokenizer.from_pretrained("HuggingFaceTB/SmolLM2-360M-Instruct")
inputs = tokenizer("The three largest rivers of Africa are", return_tensors="pt")
ids = model.generate(
    **inputs, max_new_tokens=64, do_sample=False,
    custom_generate="name/ouroboros", trust_remote_code=True, method="lookahead",
)
print(tokenizer.decode(ids[0]))
```

## Requirements

`pip install {package}`, Python 3.11 or newer.

## Models

Decoder-only models with rotary or learned positions. Others are refused in a sentence.

## Arguments beside those of `generate`

| argument | meaning |
|---|---|
| `method` | {ids} |
| `settings` | the method's settings by name, such as `{{"gamma": 4}}` |
| `assistant_model` | the draft model, for methods that need one |
| `assistant_tokenizer` | with `tokenizer`: the draft model's, where it is another one, for `hf_universal` |
| `candidate_generator` | any `CandidateGenerator` of transformers, for `hf_candidates` |
| `trace` | keep a trace of every step; needs `tokenizer` and `return_dict_in_generate=True` |

## Output

A tensor of token ids; with `return_dict_in_generate=True` a `GenerateDecoderOnlyOutput` with `statistics` and `trace`, and without
`past_key_values`. One text at a time; no beams.
"""


def requirements(package: str) -> str:
    """The packages that transformers looks for before it runs the loop, with their lower bounds."""
    project = tomllib.loads((assets().parent / "pyproject.toml").read_text("utf-8"))["project"]
    found = [Requirement(text) for text in project["dependencies"]]
    lines = [
        f"{one.name}>={bound.version}"
        for one in found
        if one.name in NEEDED
        for bound in one.specifier
        if bound.operator == ">="
    ]
    return "\n".join([f"# and {package}", *lines, ""])


def write(folder: Path, package: str = PACKAGE) -> None:
    """Write the repository; raises InvalidInput for a folder that holds anything else."""
    make_way(folder, MARK)
    inner = folder / MARK
    inner.mkdir(parents=True)
    (inner / "generate.py").write_text(LOOP.format(package=package), encoding="utf-8")
    (inner / "requirements.txt").write_text(requirements(package), encoding="utf-8")
    possible = [method for method, kind in methods.available().items() if _possible(kind)]
    ids = ", ".join(f"`{method}`" for method in possible)
    front = yaml.safe_dump(FRONT, sort_keys=False)
    text = README.format(package=package, count=len(possible), ids=ids)
    (folder / "README.md").write_text(f"---\n{front}---\n\n{text}", encoding="utf-8")
    shutil.copy(assets().parent / "LICENSE", folder)


def _possible(kind: type[Method]) -> bool:
    """Whether a method runs on what `generate` is given."""
    return kind.needs <= {Need.DRAFT_MODEL, Need.SELF_DRAFT, *ASSISTED}


def main(arguments: Sequence[str] | None = None) -> int:
    accept_any_text()
    parser = argparse.ArgumentParser(description="Write the folder of a Hub repository.")
    parser.add_argument("folder", type=Path, help="an empty folder, or one that this wrote")
    parser.add_argument("--package", default=PACKAGE, help="what `pip install` is to be given")
    given = parser.parse_args(arguments)
    try:
        write(given.folder, given.package)
    except InvalidInput as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{given.folder}: push it with `hf upload name/ouroboros {given.folder}`")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
