// SPDX-License-Identifier: Apache-2.0
// Includes every public header.
#pragma once

#include "flashinfer/activation.h"
#include "flashinfer/attention/cascade.h"
#include "flashinfer/attention/decode.h"
#include "flashinfer/attention/kv_cache.h"
#include "flashinfer/attention/mla.h"
#include "flashinfer/attention/prefill.h"
#include "flashinfer/attention/problem.h"
#include "flashinfer/backend.h"
#include "flashinfer/config.h"
#include "flashinfer/cpu.h"
#include "flashinfer/error.h"
#include "flashinfer/gemm.h"
#include "flashinfer/jit.h"
#include "flashinfer/norm.h"
#include "flashinfer/page.h"
#include "flashinfer/rope.h"
#include "flashinfer/sampling.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"
#include "flashinfer/version.h"
