# make run    the page on http://127.0.0.1:7860 (PORT=7931 make run for another port)
# make test   everything that is checked on every change; it may fetch a browser
# make setup  .venv and weights only
BASE_PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do command -v $$p && break; done)
PYTHON := .venv/bin/python
PIP := $(PYTHON) -m pip --disable-pip-version-check
export HF_HUB_DISABLE_TELEMETRY = 1
export GRADIO_ANALYTICS_ENABLED = False

.PHONY: run setup weights test lint types unit check exact browser traces static space hub wheel release fresh soak fuzz bench bench-pair screenshots docs documents clean

run: setup
	$(PYTHON) app.py $(if $(ADDRESS),--host $(ADDRESS))

setup: .venv/ready weights

.venv/ready: requirements.txt
	@$(BASE_PYTHON) -c 'import sys; sys.dont_write_bytecode = True; import app'
	$(BASE_PYTHON) -m venv .venv
	$(PIP) install --quiet --upgrade pip
	$(PIP) install --progress-bar on --requirement requirements.txt
	$(PIP) install --quiet --no-deps --editable .  # the command ouroboros
	touch $@

.venv/ready-dev: .venv/ready pyproject.toml
	$(PIP) install --quiet --group dev
	touch $@

weights: .venv/ready
	$(PYTHON) -m ouroboros_core.loading.first_start

browser: .venv/ready-dev
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	  || (command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium) \
	  || $(PYTHON) -m playwright install chromium
	@! command -v apt-get >/dev/null || { command -v firefox-esr && command -v WebKitWebDriver && command -v Xvfb; } >/dev/null \
	  || { apt-get update -qq && apt-get install -y -qq firefox-esr webkit2gtk-driver xvfb; } || true  # without them two tests are skipped

# The tools that check scripts and styles; node comes with the development tools of Python.
NODE := PATH="$(CURDIR)/.venv/bin:$(CURDIR)/node_modules/.bin:$$PATH"
node_modules/.package-lock.json: package.json package-lock.json .venv/ready-dev
	$(NODE) npm ci --no-audit --no-fund
	touch $@

lint: .venv/ready-dev node_modules/.package-lock.json
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(NODE) oxlint visualize
	$(NODE) prettier --check --log-level warn 'visualize/**/*.{js,ts,css}' '*.json' .oxlintrc.json

types: .venv/ready-dev node_modules/.package-lock.json
	find visualize -name '*.pyi' -delete
	$(PYTHON) -m mypy
	$(NODE) tsc --project tsconfig.json

# First what needs neither server nor browser, then the page. Tests that are slow by nature - distributions, training, fresh environments,
# soak, every corner of the page - are those of `make check`.
TESTED := not exact and not slow
PARALLEL := OMP_NUM_THREADS=1 $(PYTHON) -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder
unit: setup browser
	$(PARALLEL) -m "$(TESTED) and not served"
	$(PARALLEL) --maxprocesses 4 -m "$(TESTED) and served"

test: lint types unit

check: docs
	$(MAKE) unit TESTED="not exact and slow"

# The documentation, as a site that needs no network: build/docs/index.html. Its generated parts: make documents.
docs: .venv/ready-dev
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict --quiet

documents: setup
	$(PYTHON) -m scripts.documents

# The notebook for teaching, executed, as a page that needs no network: build/notebook.html. make jupyter opens it to work in.
.PHONY: notebook jupyter
notebook: setup .venv/ready-dev
	$(PYTHON) -m scripts.notebook

jupyter: setup .venv/ready-dev
	$(PIP) install --quiet 'jupyterlab>=4.4,<5'
	$(PYTHON) -m jupyterlab docs/notebooks/speculative_decoding.ipynb

# The full matrices: every method, eight architectures, eager and sdpa, greedy and three seeds; and the embedded pair.
exact: setup .venv/ready-dev
	$(PYTHON) -m pytest -q -m exact

# The recorded runs that page, lessons and gallery show, on an idle machine.
traces: setup
	$(PYTHON) -m scripts.record

# Lessons, recorded runs, the theory's curves, and the model in the visitor's browser, for any web server.
static: setup node_modules/.package-lock.json
	$(PYTHON) -m visualize.deploy.static_site build/static --live

# The folder to push as a Hugging Face Space: make space, or make space HARDWARE=zero for ZeroGPU.
HARDWARE ?= cpu
space: setup
	$(PYTHON) -m visualize.deploy.space build/space --hardware $(HARDWARE)

# The folder to push as a Hugging Face repository, for `generate(custom_generate="name/ouroboros")`: make hub, or
# make hub PACKAGE=git+https://... where the package is not in the index.
PACKAGE ?= ouroboros-core
hub: setup
	$(PYTHON) -m visualize.deploy.hub build/hub --package '$(PACKAGE)'

# What `pip install` takes, in dist: equal sources make equal bytes, whenever and wherever they are built.
wheel: .venv/ready-dev
	$(PYTHON) -m build --no-isolation

# A release: all tests, the wheel, and a tag with the version. It needs a checkout without changes, and pushes nothing.
TAG = v$(shell sed -n 's/^VERSION = "\(.*\)"/\1/p' ouroboros_core/version.py)
release:
	@test -z "$$(git status --porcelain)" || { echo 'commit first: a release is of a commit' >&2; exit 2; }
	@test -z "$$(git tag --list '$(TAG)')" || { echo 'the tag $(TAG) exists: raise the version' >&2; exit 2; }
	$(MAKE) test check exact wheel
	git tag '$(TAG)'

# A new environment from requirements.txt alone serves the page, on Python 3.11 and 3.12: make fresh PYTHONS=python3.12 for one.
# From a wheel and what it needs, out of an empty folder: make fresh WHEEL=dist/NAME.whl
PYTHONS ?= python3.11 python3.12
WHEEL ?=
fresh:
	$(BASE_PYTHON) -m scripts.fresh $(if $(WHEEL),--wheel $(WHEEL)) $(PYTHONS)

# Three hundred runs of eight visitors, and ten thousand calls that are mostly wrong. Figures: SECURITY.md.
soak: setup .venv/ready-dev
	$(PYTHON) -m tests.journeys.load --json build/soak.json

fuzz: setup .venv/ready-dev
	PAYLOADS=10000 $(PYTHON) -m pytest -s tests/journeys/test_fuzz.py

# The table of docs/benchmarks.md, on an idle machine: the methods of assets/benched.txt and modes of transformers. Continues an interrupted run;
# remove the file to measure anew. Then: make documents for the table, make screenshots for the figure.
# Other limits, peers, fewer prompts, another file: make bench NEW_TOKENS=32,128 PEERS=hf-greedy,llama.cpp LIMIT=12 RESULTS=build/benchmark.json
RESULTS ?= assets/benchmark.json
NEW_TOKENS ?= 32
PEERS ?= hf-greedy,hf-assisted,hf-prompt-lookup
LIMIT ?=
MEASURE = $(PYTHON) -m ouroboros_core bench --peers '$(PEERS)' --max-new-tokens $(NEW_TOKENS) $(if $(LIMIT),--limit $(LIMIT)) --resume
bench: setup
	@mkdir -p $(dir $(RESULTS))
	$(MEASURE) --methods '$(shell paste -sd, assets/benched.txt)' --json $(RESULTS)

# The same for another pair, which gets a table of its own: make bench-pair TARGET=folder DRAFT=folder NAME=qwen
TARGET ?=
DRAFT ?=
NAME ?= pair
bench-pair: setup
	@test -n '$(TARGET)' -a -n '$(DRAFT)' || { echo 'name both models: make bench-pair TARGET=... DRAFT=...' >&2; exit 2; }
	$(MEASURE) --target '$(TARGET)' --draft '$(DRAFT)' --methods '$(shell paste -sd, assets/benched-pair.txt)' --json 'assets/benchmark-$(NAME).json'

screenshots: setup browser
	$(PYTHON) -m scripts.screenshots

clean:
	rm -rf .venv node_modules build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
