# make run      the gateway with two small embedded engines, on http://127.0.0.1:9000/v1
# make install  .venv with the command `gateway`
# make test     everything that CI runs
# make bench    the gateway against direct, and against what else is installed
# make embed-venv   torch and sentence-transformers in .embed-venv, which the tests hold the lane against
# make soak     ten minutes of load with faults, cancels and reloads
# make stock    the stock LiteLLM proxy in .bench/litellm, which the tests boot
# make lock     requirements/ made anew from pyproject.toml
#
# PYTHON=python3.12 make ...   another Python, 3.11 or newer, with pip 22.3 or newer
# PORT=9100 make run           another port; MODEL=path.gguf another model

PYTHON ?= python3
PORT ?= 9000
MODEL ?=

BIN := .venv/bin
# The pip of $(PYTHON) brings uv into .venv, and uv the rest: Debian's Python has no ensurepip
# without a package more, and uv is many times quicker. Where uv cannot, pip does it all.
PIP := $(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check --quiet
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python

.PHONY: install run test lint bench soak stock embed-venv lock clean
.DELETE_ON_ERROR:

install: .venv/.runtime

run: .venv/.local .venv/.embed
	@exec $(BIN)/python -m serving.embedded --port $(PORT) $(if $(MODEL),--model $(MODEL))

test: lint stock embed-venv
	$(BIN)/python -m pytest -n 2

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: .venv/.dev
	$(BIN)/python -m bench

# Ten minutes of load with faults, cancels and reloads; `make test` runs one.
soak: .venv/.dev
	$(BIN)/python -m tests.soak --minutes 10

stock: .venv/.dev
	@$(BIN)/python -m tools.stock

embed-venv: .embed-venv/.made

# Each stamp is newer than what it was made from, so a second call does nothing.
.venv/.python: requirements/build.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: $(PYTHON) is too old: name a Python 3.11 or newer, PYTHON=... make" >&2; exit 1; }
	@$(PYTHON) -m pip --version >/dev/null 2>&1 \
	  || { echo "make: $(PYTHON) has no pip: on Debian, apt-get install python3-pip" >&2; exit 1; }
	@$(PYTHON) -m venv --without-pip --clear .venv
	@$(PIP) install --require-hashes --no-compile -r requirements/build.txt
	@touch $@

.venv/.runtime .venv/.local .venv/.embed .venv/.dev: .venv/.%: requirements/%.txt pyproject.toml .venv/.python
	@echo "installing requirements/$*.txt into .venv ..."
	@$(UV) --require-hashes -r requirements/$*.txt \
	  || $(PIP) install --require-hashes --no-compile -r requirements/$*.txt
	@$(PIP) install --no-deps --no-build-isolation --no-compile --editable .
	@touch $@

# Apart from .venv, because it is 1.1 GB of other people's packages; by pip, because that is what a
# machine with torch's CPU build at hand is set up for.
.embed-venv/.made: pyproject.toml .venv/.python
	@echo "installing torch and sentence-transformers into .embed-venv ..."
	@$(PYTHON) -m venv --without-pip --clear .embed-venv
	@$(BIN)/python -m pip --python .embed-venv/bin/python --disable-pip-version-check --quiet \
	  install --no-compile --group embed-proof
	@touch $@

UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-annotate --no-header --no-emit-index-url --prerelease disallow $(LOCK_FLAGS)

# LOCK_FLAGS=--upgrade moves every pin to the newest release that pyproject.toml allows.
# TORCH_FROM is a folder or a page of links with torch's CPU builds: pytorch.org names one. Without it
# that lock stays as it is. One Python and one platform, because a build is of one.
TORCH_FROM ?= $(PIP_FIND_LINKS)
TORCH_COMPILE := $(subst --universal,--python-platform x86_64-manylinux_2_28,$(UV_COMPILE)) \
  --no-emit-find-links --find-links $(TORCH_FROM)

lock: .venv/.dev
	$(UV_COMPILE) --group build -o requirements/build.txt >/dev/null
	$(UV_COMPILE) pyproject.toml -o requirements/runtime.txt >/dev/null
	$(UV_COMPILE) pyproject.toml --extra local -c requirements/runtime.txt -o requirements/local.txt >/dev/null
	$(UV_COMPILE) pyproject.toml --extra embed -c requirements/local.txt -o requirements/embed.txt >/dev/null
	$(UV_COMPILE) pyproject.toml --extra local --extra embed --extra dev -c requirements/local.txt \
	  -c requirements/embed.txt -c requirements/build.txt \
	  -o requirements/dev.txt >/dev/null
	$(if $(TORCH_FROM),$(TORCH_COMPILE) pyproject.toml --extra embed-torch --group embed-lane \
	  -c requirements/runtime.txt -c requirements/embed.txt \
	  -o requirements/embed-torch.txt >/dev/null, \
	  @echo "requirements/embed-torch.txt stays as it is: TORCH_FROM names no builds of torch")
	$(UV_COMPILE) --group stock -c requirements/runtime.txt -o requirements/stock.txt >/dev/null

clean:
	rm -rf .venv .embed-venv dist run .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
