"""Write the generated parts of README.md and docs/ that are stale, and print their files."""

from scripts.documents import ROOT, stale

for name, text in stale().items():
    (ROOT / name).write_text(text, encoding="utf-8")
    print(name)
