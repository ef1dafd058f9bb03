# Targets for developers; `make` lists them. A new machine needs Python 3.11 or newer with pip and
# venv, and a C++ compiler. All other tools are installed from the package registry into $(VENV).
PYTHON ?= python3
VENV ?= .venv
PEERS_VENV ?= $(VENV)-peers
RAY_VENV ?= $(VENV)-ray
TORCH_VENV ?= $(VENV)-torch
ONNX_VENV ?= $(VENV)-onnx
JAX_VENV ?= $(VENV)-jax
EXAMPLES_VENV ?= $(VENV)-examples
ARGS ?=

BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PACKAGES := core plugins/std plugins/cpu plugins/nn plugins/kit
# Installed without dependencies, since CuPy and the NVIDIA libraries take a gigabyte, and the tests
# need neither these nor a GPU.
CUDA := plugins/cuda
CUDA_EMULATOR := plugins/cuda_emulator
# The packages for distributed training.
DIST := plugins/dist plugins/mpi
# An example that a documentation page uses and that is tested like a package.
SIMULATION := examples/plugins/opwright-simulation
# Installed without dependencies, since NCCL takes 360 MB; `make test-nccl` installs it.
NCCL := plugins/nccl
# Installed without dependencies, since Ray takes 700 MB; $(RAY_VENV) has it.
RAY := plugins/ray
# Installed without dependencies, since PyTorch takes a gigabyte; $(TORCH_VENV) has it.
TORCH := plugins/torch
# Installed without dependencies, so tests cover a machine without onnx; $(ONNX_VENV) has it.
ONNX := plugins/onnx
# Installed without dependencies, since JAX takes 200 MB; $(JAX_VENV) has it.
JAX := plugins/jax
# The library that runs bundles, built from the core sources; it is not needed in $(VENV).
LIBRARY := core/libopwright
VERSION := core/src/opwright/_version.py
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Installs exact releases with hashes, which `make pins` updates, and prints the progress.
INSTALL := $(BIN)/python .ci/install.py
NATIVE := $(shell find core/native core/include plugins/cpu/native -type f 2>/dev/null) \
	$(wildcard core/CMakeLists.txt plugins/cpu/CMakeLists.txt)
COMPILED := $(wildcard core/src/opwright/lowering/*/*.py)
NATIVE_CUDA := $(shell find core/include $(CUDA)/native -type f 2>/dev/null) \
	$(wildcard $(CUDA)/CMakeLists.txt $(CUDA)/src/opwright_cuda/cu/fault.h $(CUDA)/src/opwright_cuda/services.h)
NATIVE_DIST := $(shell find core/include plugins/mpi/native $(NCCL)/native -type f 2>/dev/null) \
	$(wildcard plugins/mpi/CMakeLists.txt $(NCCL)/CMakeLists.txt $(CUDA)/src/opwright_cuda/services.h \
	$(NCCL)/src/opwright_nccl/cu/parts.h $(NCCL)/src/opwright_nccl/cu/progress.h $(JAX)/CMakeLists.txt) \
	$(wildcard $(JAX)/native/*)
NATIVE_STYLE := $(shell find core/native core/include/opwright plugins/cpu/native $(CUDA)/native \
	$(CUDA)/src $(CUDA_EMULATOR)/src plugins/mpi/native $(NCCL)/native $(NCCL)/src $(JAX)/native tests examples/plugins -type f \
	\( -name '*.h' -o -name '*.hpp' -o -name '*.c' -o -name '*.cc' -o -name '*.cu' \) 2>/dev/null)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv pins demo test test-all test-peers bench-operators check lint format docs bench sanitize proto release tarball clean
.PHONY: test-ray test-torch test-torch-small test-onnx test-onnx-small fuzz-onnx test-jax test-jax-small test-examples test-nccl test-cuda bench-cuda gpu-wheels fuzz hooks coverage compile-commands tidy models

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=python3.13    the interpreter that makes $(VENV)"
	@echo "  ARGS='-k softmax'    more arguments for pytest, or for bench: ARGS='call mlp-* --rounds 9',"
	@echo "                       for test-cuda: ARGS='confirm models', for bench-cuda: ARGS='mlp-*',"
	@echo "                       for fuzz: ARGS='calls programs --seed 7'; HOURS=8, SANITIZE=1"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON): opwright needs Python 3.11 or newer; name one: make PYTHON=python3.13"; \
		exit 1; }
	$(PYTHON) -m venv $(VENV)

$(STAMPS)/builders: pins/packages.txt | $(BIN)/python
	@mkdir -p $(STAMPS)
	@$(INSTALL) pins $<
	@touch $@

# Editable installations: changes to Python files take effect immediately, and changes to native
# files when this rule runs again. The build tools stay in $(VENV), so only changed files are
# compiled, here and for the wheels of the tests.
$(STAMPS)/native: $(PACKAGES:%=%/pyproject.toml) $(VERSION) $(NATIVE) $(STAMPS)/builders
	@echo "compiling $(PACKAGES) into $(VENV): six minutes of processor" \
		"time, here up to $$((1 + 6 / $$(nproc))) minutes"
	@$(INSTALL) packages $(PACKAGES)
	@touch $@

# Changes to compiled Python files take effect when this rule runs again.
$(STAMPS)/packages: $(COMPILED) $(STAMPS)/native
	@$(if $(filter $(STAMPS)/native,$?),,$(INSTALL) packages --no-deps core)
	@touch $@

$(STAMPS)/cuda: $(CUDA)/pyproject.toml $(CUDA_EMULATOR)/pyproject.toml $(VERSION) \
		$(NATIVE_CUDA) $(STAMPS)/native
	@$(INSTALL) packages --no-deps $(CUDA) $(CUDA_EMULATOR)
	@touch $@

$(STAMPS)/dist: $(DIST:%=%/pyproject.toml) $(NCCL)/pyproject.toml $(RAY)/pyproject.toml $(TORCH)/pyproject.toml \
		$(ONNX)/pyproject.toml $(JAX)/pyproject.toml $(SIMULATION)/pyproject.toml $(VERSION) $(NATIVE_DIST) pins/dist.txt $(STAMPS)/native $(STAMPS)/cuda
	@$(INSTALL) pins pins/dist.txt
	@$(INSTALL) packages $(DIST)
	@$(INSTALL) packages --no-deps $(NCCL) $(RAY) $(TORCH) $(ONNX) $(JAX) $(SIMULATION)
	@touch $@

$(STAMPS)/tools: pins/tools.txt | $(BIN)/python
	@mkdir -p $(STAMPS)
	@$(INSTALL) pins $<
	@touch $@

# Prepares all that `make test` needs, so two test runs can run concurrently.
venv: $(STAMPS)/packages $(STAMPS)/cuda $(STAMPS)/dist $(STAMPS)/tools $(STAMPS)/nvrtc  ## make .venv with the packages and all tools

# Each file lists the newest releases that its sources allow; tools.txt constrains the other files.
UV := build/uv
WITH_TOOLS := -- $(if $(ARGS),$(ARGS),--upgrade) --constraints pins/tools.txt
pins: | $(BIN)/python  ## move pins to the newest releases: ARGS='--upgrade-package pytest' for one
	@$(PIP) install --upgrade --target $(UV) uv
	@mkdir -p pins
	@$(BIN)/python .ci/move_pins.py pins/tools.txt requirements-dev.txt $(PACKAGES) $(DIST) -- $(ARGS)
	@$(BIN)/python .ci/move_pins.py pins/packages.txt requirements-build.txt $(PACKAGES) $(WITH_TOOLS)
	@$(BIN)/python .ci/move_pins.py pins/dist.txt $(DIST) $(WITH_TOOLS)
	@$(BIN)/python .ci/move_pins.py pins/models.txt scikit-learn $(WITH_TOOLS)
	@$(BIN)/python .ci/move_pins.py pins/release.txt "build>=1.3" "twine>=6.2" $(WITH_TOOLS)
	@$(BIN)/python .ci/move_pins.py pins/nvrtc.txt "nvidia-cuda-nvrtc==13.0.*" -- $(ARGS)
	@$(BIN)/python .ci/move_pins.py pins/protoc.txt "grpcio-tools==1.71.0" -- $(ARGS)

demo: $(STAMPS)/packages  ## train on handwritten digits, save the model, and load it in a new process
	@$(BIN)/python examples/train_digits.py

# One of the models reads a table from scikit-learn, which is not needed otherwise.
$(STAMPS)/scikit: pins/models.txt $(STAMPS)/tools
	@$(INSTALL) pins $<
	@touch $@

MODELS ?= $(filter-out %/example.py,$(wildcard examples/models/*.py))
models: $(STAMPS)/packages $(STAMPS)/scikit  ## train every classic model in examples/models to its required score
	@set -e; for script in $(MODELS); do echo "$$script"; $(BIN)/python $$script $(ARGS); done

# The oldest supported NVRTC, in addition to the newest, from requirements-dev.txt.
NVRTC := $(VENV)/nvrtc-13.0
$(STAMPS)/nvrtc: pins/nvrtc.txt $(STAMPS)/tools
	@$(INSTALL) pins $< --upgrade --target $(NVRTC)
	@touch $@

# Kernels compiled for the emulated GPU, named by source hash, so they are not recompiled in each
# test run.
test: export OPWRIGHT_EMULATOR_DIR ?= $(CURDIR)/build/emulator
test: venv  ## run all tests, with a sample of the operator cases
	@$(if $(ARGS),$(BIN)/python -m pytest $(ARGS),.ci/run_in_parts.sh $(BIN)/python)

test-all: export OPWRIGHT_EVERY_CASE := 1
test-all: test  ## run all tests, with every case of an operator in every dtype on every library

test-peers: export OPWRIGHT_EVERY_CASE := 1
test-peers: $(STAMPS)/packages $(STAMPS)/tools $(PEERS_VENV)/.stamps/peers $(TORCH_VENV)/.stamps/torch  ## compare operators with PyTorch
	@OPWRIGHT_TEST_PEERS=$(PEERS_VENV)/bin/python $(BIN)/python -m pytest tests/peers $(ARGS)
	@$(TORCH_VENV)/bin/python -m pytest tests/torch/opinfo/test_judge.py $(ARGS)

# Creates an environment that also finds the packages of $(VENV), after its own.
BEHIND := import site, sys; open(site.getsitepackages()[0] + "/development.pth", "w").write( \
	f"import site; site.addsitedir({sys.argv[1]!r})\n")
make_venv = test -x $(1)/bin/python || $(BIN)/python -m venv $(1); mkdir -p $(1)/.stamps; \
	$(1)/bin/python -c '$(BEHIND)' "$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])')"

$(RAY_VENV)/.stamps/ray: $(RAY)/pyproject.toml $(STAMPS)/dist $(STAMPS)/tools
	@$(call make_venv,$(RAY_VENV))
	@echo "installing Ray into $(RAY_VENV): 700 MB"
	@$(RAY_VENV)/bin/python -m pip --disable-pip-version-check --quiet install --no-build-isolation -e "./$(RAY)[data]"
	@touch $@

test-ray: $(RAY_VENV)/.stamps/ray  ## train on a Ray cluster whose workers are killed
	@$(RAY_VENV)/bin/python -m pytest tests/ray $(ARGS)

# Installed without hashes, since the pip settings determine whether PyTorch is a CPU or CUDA build.
$(TORCH_VENV)/.stamps/torch: requirements-torch.txt $(STAMPS)/dist $(STAMPS)/tools
	@$(call make_venv,$(TORCH_VENV))
	@echo "installing PyTorch into $(TORCH_VENV): a gigabyte, five where the build for CUDA is the only one"
	@$(TORCH_VENV)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

test-torch-small: $(TORCH_VENV)/.stamps/torch  ## test opwright inside PyTorch on a sample of operators and models
	@$(TORCH_VENV)/bin/python -c 'import torch, opwright_torch'
	@$(TORCH_VENV)/bin/python -m pytest $(if $(filter tests/%,$(ARGS)),,tests/torch) $(ARGS)

test-torch: export OPWRIGHT_EVERY_CASE := 1
test-torch: test-torch-small  ## test opwright inside PyTorch, with every operator and model

$(ONNX_VENV)/.stamps/onnx: requirements-onnx.txt $(STAMPS)/dist $(STAMPS)/tools
	@$(call make_venv,$(ONNX_VENV))
	@$(ONNX_VENV)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

test-onnx-small: $(ONNX_VENV)/.stamps/onnx  ## test ONNX models on a sample of the onnx test cases
	@$(ONNX_VENV)/bin/python -c 'import onnx, opwright_onnx'
	@$(ONNX_VENV)/bin/python -m pytest $(if $(filter tests/%,$(ARGS)),,tests/onnx) $(ARGS)

$(EXAMPLES_VENV)/.stamps/examples: requirements-examples.txt examples/serving/requirements.txt $(STAMPS)/dist $(STAMPS)/tools
	@$(call make_venv,$(EXAMPLES_VENV))
	@$(EXAMPLES_VENV)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

test-examples: $(EXAMPLES_VENV)/.stamps/examples  ## test the server of the examples, and check their types with Pyright and mypy
	@$(EXAMPLES_VENV)/bin/python -m pytest $(if $(filter tests/%,$(ARGS)),,tests/examples/test_serving.py tests/examples/test_types.py tests/nn/metrics/test_metrics_of_classes.py) $(ARGS)

fuzz-onnx: $(ONNX_VENV)/.stamps/onnx  ## run damaged ONNX models against opwright
	@$(ONNX_VENV)/bin/python tests/fuzz/run.py onnx_files $(FUZZ) $(ARGS)

test-onnx: export OPWRIGHT_EVERY_CASE := 1
test-onnx: test-onnx-small  ## test ONNX models on every onnx test case

$(JAX_VENV)/.stamps/jax: requirements-jax.txt $(STAMPS)/dist $(STAMPS)/tools
	@$(call make_venv,$(JAX_VENV))
	@$(JAX_VENV)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

test-jax-small: $(JAX_VENV)/.stamps/jax  ## test opwright inside JAX on a sample of operators
	@$(JAX_VENV)/bin/python -c 'import jax, opwright_jax'
	@$(JAX_VENV)/bin/python -m pytest $(if $(filter tests/%,$(ARGS)),,tests/jax) $(ARGS)

test-jax: export OPWRIGHT_EVERY_CASE := 1
test-jax: test-jax-small  ## test opwright inside JAX, with every operator

$(STAMPS)/nccl: $(NCCL)/pyproject.toml $(STAMPS)/dist $(STAMPS)/tools
	@echo "installing NVIDIA's NCCL into $(VENV): 360 MB"
	@$(PIP) install --no-deps "nvidia-nccl-cu13>=2.28,<3"
	@touch $@

test-nccl: $(STAMPS)/nccl  ## test with NVIDIA's NCCL, and on two GPUs if there are two
	@$(BIN)/python -m pytest tests/nccl $(ARGS)

check: $(STAMPS)/packages $(STAMPS)/cuda $(STAMPS)/dist  ## run the conformance kit on the packages of this repository: half an hour
	$(BIN)/opwright check opwright-std
	$(BIN)/opwright check opwright-cpu
	$(BIN)/opwright check opwright-dist
	OPWRIGHT_DIST_ENGINE=mpi $(BIN)/opwright check opwright-mpi
	$(BIN)/python tests/kit/testing/check_cuda.py

lint: $(STAMPS)/packages $(STAMPS)/cuda $(STAMPS)/dist $(STAMPS)/tools  ## check style, types, layers and file lengths
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@echo clang-format --dry-run --Werror
	@$(BIN)/clang-format --dry-run --Werror $(NATIVE_STYLE)
	$(BIN)/python .ci/check_files.py

format: $(STAMPS)/tools  ## format Python and C++
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(NATIVE_STYLE)

hooks: $(STAMPS)/tools  ## make git check formatting and commit subjects
	@$(BIN)/pre-commit install

# Joins the compile commands that CMake wrote for each native package into one list, where editors
# look for it.
COMPILE_COMMANDS := build/compile_commands.json
compile-commands: $(STAMPS)/packages $(STAMPS)/cuda  ## list how C++ is compiled, for editors
	@$(BIN)/python .ci/join_compile_commands.py $(COMPILE_COMMANDS) core plugins/cpu $(CUDA)

# For some files only: make tidy ARGS=core/native/runtime/
tidy: compile-commands $(STAMPS)/tools  ## check C++ with clang-tidy: five minutes of processor time
	@$(BIN)/python .ci/tidy.py $(COMPILE_COMMANDS) $(ARGS)

coverage: $(STAMPS)/tools  ## print how much of the Python and C++ code the tests cover
	@$(BIN)/python .ci/measure_coverage.py $(ARGS)

docs: $(STAMPS)/packages $(STAMPS)/cuda $(STAMPS)/dist $(STAMPS)/tools  ## build the documentation site into build/docs
	@$(BIN)/python docs/site/build.py $(ARGS)
	@echo build/docs/index.html

# The peers of the benchmarks are never installed into the development environment.
$(PEERS_VENV)/.stamps/peers: benchmarks/requirements-peers.txt | $(BIN)/python
	@test -x $(PEERS_VENV)/bin/python || $(BIN)/python -m venv $(PEERS_VENV)
	@mkdir -p $(@D)
	@echo "installing the peers of the benchmarks into $(PEERS_VENV): a gigabyte or more"
	@$(PEERS_VENV)/bin/python -m pip --disable-pip-version-check --quiet install \
		-r benchmarks/requirements-peers.txt
	@touch $@

bench: $(STAMPS)/packages $(STAMPS)/dist $(PEERS_VENV)/.stamps/peers  ## measure opwright and its peers
	@$(BIN)/python benchmarks/run.py --peers $(PEERS_VENV)/bin/python $(ARGS)

bench-operators: $(STAMPS)/packages $(PEERS_VENV)/.stamps/peers  ## measure every operator, compared with PyTorch
	@$(BIN)/python benchmarks/operator_times.py --peers $(PEERS_VENV)/bin/python $(ARGS)

sanitize: $(STAMPS)/cuda $(STAMPS)/tools  ## run native code and kernels under ASan, UBSan and TSan
	@sh tests/native/run_sanitized.sh
	@OPWRIGHT_SANITIZE_ALL=1 $(BIN)/python -m pytest tests/cuda/kernels/test_sanitizers.py $(ARGS)

# For a machine with a GPU and without a registry. These targets use the interpreter PYTHON and
# build into build/gpu; see docs/run_on_a_gpu.md.
test-cuda:  ## test on the GPU of this machine, without a registry
	@$(PYTHON) tests/cuda/on_gpu/run.py $(ARGS)

bench-cuda:  ## measure on the GPU of this machine, compared with PyTorch, without a registry
	@$(PYTHON) tests/cuda/on_gpu/install.py benchmarks/run.py --folder benchmarks/cuda \
		--together 5 $(ARGS)

# Downloads packages that a machine with a GPU may lack, into a folder of at most 60 MB. GPU_PYTHON
# is the Python version of that machine.
GPU_PYTHON ?= 3.12
GPU_PLATFORMS := $(foreach libc,2_28 2_27 2_24 2_17,manylinux_$(libc)_x86_64) manylinux2014_x86_64
gpu-wheels: | $(BIN)/python  ## download wheels for test-cuda and bench-cuda into wheelhouse/
	@rm -rf wheelhouse
	$(PIP) download --no-deps --only-binary=:all: --python-version $(GPU_PYTHON) \
		--implementation cp $(GPU_PLATFORMS:%=--platform %) -d wheelhouse \
		-r tests/cuda/on_gpu/requirements.txt
	@if command -v python$(GPU_PYTHON) > /dev/null && python$(GPU_PYTHON) -c pass 2> /dev/null; then \
		$(MAKE) --no-print-directory build/gpu-wheels-venv/.made; \
		PATH="$(CURDIR)/build/gpu-wheels-venv/bin:$$PATH" \
		build/gpu-wheels-venv/bin/python tests/cuda/on_gpu/install.py --make-wheels; \
	else echo "no python$(GPU_PYTHON) here: the packages will be compiled on that machine"; fi
	@du -sh wheelhouse

build/gpu-wheels-venv/.made:
	python$(GPU_PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install numpy pybind11 \
		scikit-build-core hatchling cmake ninja 'mypy[mypyc]'
	@touch $@

# Generated with the oldest supported release, because newer releases read older code, but not vice
# versa.
PROTO_OUT ?= core/src
PROTO_TOOLS := build/protoc
$(PROTO_TOOLS)/.made: pins/protoc.txt | $(BIN)/python
	@$(INSTALL) pins $< --no-compile --upgrade --target $(PROTO_TOOLS)
	@touch $@

# Runs for two minutes or HOURS; SANITIZE=1 rebuilds native code with AddressSanitizer and UBSan.
HOURS ?=
SANITIZE ?=
FUZZ := $(if $(HOURS),--seconds $(shell awk 'BEGIN {print $(HOURS) * 3600}')) $(if $(SANITIZE),--sanitize)
fuzz: $(STAMPS)/packages $(STAMPS)/tools  ## run random programs, calls and files against opwright
	@$(BIN)/python tests/fuzz/run.py $(FUZZ) $(ARGS)

proto: $(PROTO_TOOLS)/.made  ## generate framework_pb2.py from proto/
	@mkdir -p $(PROTO_OUT)
	@PYTHONPATH=$(PROTO_TOOLS) $(BIN)/python -m grpc_tools.protoc -Iproto --python_out=$(PROTO_OUT) \
		--pyi_out=$(PROTO_OUT) proto/opwright/framework.proto

# The release checks require twenty packages that are not needed otherwise.
$(STAMPS)/release: pins/release.txt $(STAMPS)/builders $(STAMPS)/tools
	@$(INSTALL) pins $<
	@touch $@

VERSIONS ?= 3.11 3.12 3.13
PYTHONS ?=
release: $(STAMPS)/release  ## build dist/: distributions for a registry, tested with three Python versions
	@$(BIN)/python .ci/make_release.py dist $(PACKAGES) $(CUDA) $(CUDA_EMULATOR) $(DIST) $(NCCL) $(RAY) $(TORCH) \
		$(ONNX) $(JAX) $(LIBRARY) --versions $(VERSIONS) --pythons $(PYTHONS)

tarball: $(STAMPS)/packages  ## pack the files that run bundles without Python into dist/
	@$(BIN)/python .ci/make_tarball.py dist $(LIBRARY) plugins/cpu

clean:  ## remove build products, but not .venv
	rm -rf build dist wheelhouse model_dir .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -not -path './$(VENV)*' -prune -exec rm -rf {} +
