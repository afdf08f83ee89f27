# Short names for what people do here. The build itself is in CMakeLists.txt; one folder,
# build/release, serves all of these.
SHELL := /bin/sh
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PYTHON := .venv/bin/python
CLI := build/release/bin/flashinfer
FLASHINFER ?= $(CLI)
DIST ?= flashinfer-cpp
VERSION ?=
MODELS := $${XDG_CACHE_HOME:-$$HOME/.cache}/flashinfer/models
PROMPT ?= Explain what a GPU kernel is in one sentence.
.DEFAULT_GOAL := help
.PHONY: demo build test wheel gpu-test compile-all bundle bench format lint clean help setup configure

help:  ## Print this list
	@echo 'make demo     set up, build, fetch a small model and let it answer a prompt'
	@echo 'make test     set up, build and run every test'
	@echo 'make build    the library and the command line tool, $(CLI)'
	@echo 'make compile-all  compile every kernel of packs/ for every GPU architecture'
	@echo 'make gpu-test one folder of tests and benchmarks for a machine with a GPU: build/gpu-test/'
	@echo 'make bundle   one folder that runs on other Linux machines: build/bundle/'
	@echo 'make wheel    the Python package: dist/; DIST and VERSION are its name and version'
	@echo 'make bench    measure every operator and the engine against their peers'
	@echo 'make format   format the C++ files'
	@echo 'make lint     format, include, size, README and API page checks'
	@echo 'make clean    remove build/'
	@echo 'Variables: JOBS=$(JOBS), PROMPT="$(PROMPT)"'

setup:
	@tools/setup

configure: setup
	@cmake --preset release --log-level=WARNING >/dev/null

build: configure
	@cmake --build --preset release -j $(JOBS) --target bin/flashinfer

demo: build
	@$(PYTHON) tools/fetch_model >/dev/null
	@$(CLI) generate --model "$(MODELS)/SmolLM2-135M-Instruct.Q4_1.gguf" --prompt "$(PROMPT)"

# Tests that need the model or outside data skip with a word where it cannot be had.
test: configure
	@cmake --build --preset release -j $(JOBS)
	@$(PYTHON) tools/fetch_model >/dev/null || echo 'test: going on without the model' >&2
	@ctest --preset release -j $(JOBS)

compile-all: configure
	@cmake --build --preset release -j $(JOBS) --target kernel_compile_test
	@FLASHINFER_COMPILE_ALL=1 FLASHINFER_SOURCE_DIR=. build/release/bin/kernel_compile_test

# What runs on a machine with a GPU and libnvrtc, and nothing else: build/gpu-test/run.
gpu-test: configure
	@cmake --build --preset release -j $(JOBS) --target gpu_tests
	@tools/gpu_bundle build/release build/gpu-test

bundle: configure
	@cmake --build --preset release -j $(JOBS)
	@tools/bundle build/release build/bundle

# DIST=flashinfer-python gives the original's name, for environments whose other packages require it.
# The two must not be installed together: they hold the same files.
wheel: configure
	@cmake --build --preset release -j $(JOBS) --target flashinfer_tvm_ffi bin/flashinfer
	@$(PYTHON) tools/python_package.py --dist "$(DIST)" --version "$(VERSION)"

bench: configure
	@cmake --build --preset release -j $(JOBS)
	@tools/setup --bench
	@$(PYTHON) tools/fetch_model >/dev/null
	@.venv-bench/bin/python benchmarks/run.py

format:
	@tools/format.sh

lint:
	@tools/format.sh --check
	@python3 tools/include_check.py
	@python3 tools/file_check.py
	@python3 tools/update_python_api.py --check
	@python3 tools/update_readme.py --check --flashinfer "$(FLASHINFER)"

clean:
	@rm -rf build
