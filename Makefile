# visavis: `make run` talks, `make test` proves. Needs Python 3.11 to 3.14 and make.

PYTHON ?= python3
VENV   ?= .venv
CLIENTS ?= .venv-clients
FRAMEWORKS ?= .venv-frameworks
BIN    := $(VENV)/bin
RUN_LOCK  := requirements/run.lock
TEST_LOCK := requirements/test.lock
PIP    := $(BIN)/python -m pip --disable-pip-version-check
# Whatever the environment says: dozens of processes import the same modules.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install run wheels test browser proxies clients frameworks gpu-test check audit fuzz protos lock clean help

help:
	@echo "make run    set everything up, pull the weights, start the avatar"
	@echo "make install  set everything up, start nothing"
	@echo "make wheels  every package as a file, in wheels/; make install WHEELS=wheels needs no network"
	@echo "make test   set everything up, run every check and test"
	@echo "make test ARGS=tests/asr  these tests only"
	@echo "make browser  install Chromium for the browser tests (apt, needs root)"
	@echo "make proxies  try docs/proxies.md with nginx, Caddy, coturn and Chromium"
	@echo "make clients  install stock clients in $(CLIENTS) and try the stack with them"
	@echo "make frameworks  install Pipecat and LiveKit's agents in $(FRAMEWORKS), run docs/examples within them"
	@echo "make gpu-test  what needs an NVIDIA GPU, with a table of figures"
	@echo "make check  format, lint and types only"
	@echo "make audit  known weaknesses of the locked packages"
	@echo "make fuzz   odd inputs for every decoder, for a minute: make fuzz ARGS=\"--seconds 600\""
	@echo "make protos regenerate visavis/v1 from protos/"
	@echo "make lock   resolve the locked requirements anew"

install: $(VENV)/.run

run: $(VENV)/.run
	@$(BIN)/visavis up $(ARGS)

test: $(VENV)/.test
	@VENV=$(VENV) bash tests/run.sh $(ARGS)

# Without it the tests that need a browser are skipped, and say so. Any Chromium or Chrome does; the
# one without windows, where there is such a package, takes two thirds of the processor's time. Beside
# it, `apt-get install firefox-esr` has the essential conversation tried in Firefox.
browser:
	@for name in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable \
	  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" \
	  /Applications/Chromium.app/Contents/MacOS/Chromium; do \
	  if command -v "$$name"; then exit; fi; \
	done; \
	if ! command -v apt-get >/dev/null; then \
	  echo "apt-get, which installs Chromium, is not here: install Google Chrome or Chromium yourself" >&2; exit 1; \
	fi; \
	apt-get update -qq && export DEBIAN_FRONTEND=noninteractive && \
	{ apt-get install -y -qq chromium-headless-shell >/dev/null 2>&1 || apt-get install -y -qq chromium >/dev/null; }

# Debian's nginx, caddy, coturn and chromium; what is not installed is skipped, with the reason.
proxies: $(VENV)/.test
	-nginx -v; caddy version; turnserver --version; chromium --version
	$(BIN)/python -m pytest tests/proxies/test_http.py tests/proxies/in_chromium.py $(ARGS)

# In an environment of their own: they want other versions of what we use, and nothing of ours.
clients: $(VENV)/.test
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip --disable-pip-version-check install --quiet -r requirements/clients.txt
	$(CLIENTS)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps -r requirements/clients-no-deps.txt
	npm install --silent --no-audit --no-fund --prefix $(CLIENTS) @openai/agents-realtime@0.20.0 zod@4 @met4citizen/talkinghead@1.7.0 whip-whep@1.2.0 node-media-server@4.4.3 \
	  || echo "npm is not there: nothing is tried with OpenAI's SDK for agents, TalkingHead, whip-whep and node-media-server"
	$(BIN)/visavis models pull --profile tiny
	VISAVIS_CLIENTS=$(CLIENTS) VISAVIS_RIVA_SCRIPTS=$(RIVA_SCRIPTS) $(BIN)/python -m pytest -p tests.stack.client_table \
	  $(addprefix tests/stack/test_,openai_*.py stock_clients.py riva_scripts.py talking_head.py whip_whep.py media_servers.py) $(ARGS)

frameworks: $(VENV)/.test
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip --disable-pip-version-check install --quiet -r requirements/frameworks.txt
	$(BIN)/visavis models pull --profile tiny
	VISAVIS_FRAMEWORKS=$(FRAMEWORKS) $(BIN)/python -m pytest -p tests.stack.client_table tests/stack/test_frameworks.py $(ARGS)

gpu-test: $(VENV)/.test
	$(BIN)/visavis models pull --profile tiny
	$(BIN)/python -m pytest -m gpu --timeout 300 tests/gpu tests/engine/test_engine.py $(ARGS)

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The locks carry the digest of every file; --no-deps because they are complete; --no-compile
# because most modules are never imported, and those that are Python compiles as they are.
# uv takes a third of pip's time. Where it cannot be had, or finds nothing because the machine's
# index stands in pip's own settings, pip installs the same files. uv is told which environment to
# fill: else it takes the one that is active in the terminal.
UV := $(BIN)/uv --no-config pip
LOCKED := --require-hashes --no-deps -r
# A company's authority: pip and uv each know one of these names.
AUTHORITY := $(or $(SSL_CERT_FILE),$(REQUESTS_CA_BUNDLE),$(CURL_CA_BUNDLE),$(PIP_CERT))
# Where there is no network: the folder that `make wheels` has filled elsewhere.
FROM := $(if $(WHEELS),--no-index --find-links "$(WHEELS)")
define install
	@$(if $(AUTHORITY),export SSL_CERT_FILE="$(AUTHORITY)" REQUESTS_CA_BUNDLE="$(or $(REQUESTS_CA_BUNDLE),$(AUTHORITY))";) \
	$(PIP) install --quiet $(FROM) $(LOCKED) requirements/uv.lock && $(UV) --system-certs install --python $(BIN)/python $(FROM) $(LOCKED) $(1) || \
	  { echo "uv could not install it; pip tries"; \
	    $(PIP) install --quiet --progress-bar on --no-compile $(FROM) $(LOCKED) $(1); } || \
	  { echo "Packages cannot be had: behind a company's proxy, or without a network, see docs/machines.md"; exit 1; }
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
endef

# Where the Python that it was made of is gone, as after an upgrade of the system: all anew.
ifeq ($(shell test -x $(BIN)/python || echo gone),gone)
.PHONY: $(VENV)/.run $(VENV)/.test
endif

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON) here: install Python, or make run PYTHON=PATH"; exit 1; }
	@$(PYTHON) requirements/check_python.py && $(PYTHON) -m visavis.tools.cli.systems
	@rm -f $(BIN)/python*
	$(PYTHON) -m venv $(VENV) || { rm -f $@; exit 1; }

$(VENV)/.run: $(RUN_LOCK) pyproject.toml | $(VENV)/bin/python
	$(call install,$(RUN_LOCK))
	@touch $@

$(VENV)/.test: $(TEST_LOCK) pyproject.toml | $(VENV)/bin/python
	$(call install,$(TEST_LOCK))
	@touch $@ $(VENV)/.run

wheels: | $(VENV)/bin/python
	$(PIP) download --quiet --progress-bar on --only-binary :all: -d wheels $(LOCKED) requirements/uv.lock
	$(PIP) download --quiet --progress-bar on --only-binary :all: -d wheels $(LOCKED) $(RUN_LOCK)

audit: $(VENV)/.test
	@$(BIN)/python -m tests.audit $(ARGS)

fuzz: $(VENV)/.test
	@$(BIN)/python -m tests.fuzz $(ARGS)

protos: $(VENV)/.test
	$(BIN)/python -m grpc_tools.protoc -I protos --python_out=. --pyi_out=. protos/visavis/v1/*.proto
	$(BIN)/python -m grpc_tools.protoc -I protos --grpc_python_out=. $(addprefix protos/visavis/v1/,asr.proto llm.proto tts.proto face.proto kserve.proto riva_asr.proto riva_tts.proto audio2face.proto)

lock: | $(VENV)/bin/python
	$(PIP) install --quiet $(LOCKED) requirements/uv.lock
	echo uv | $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate - -o requirements/uv.lock
	echo pip-audit | $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate - -o requirements/audit.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --extra up --no-header pyproject.toml -o $(RUN_LOCK)
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --extra dev --no-header pyproject.toml -o $(TEST_LOCK)

clean:
	rm -rf $(VENV) build dist *.egg-info
