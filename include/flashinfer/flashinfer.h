// SPDX-License-Identifier: Apache-2.0
// Includes every public header.
#pragma once

#include "flashinfer/backend.h"
#include "flashinfer/cpu.h"
#include "flashinfer/error.h"
#include "flashinfer/norm.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"
#include "flashinfer/version.h"
