// SPDX-License-Identifier: Apache-2.0
// Tensors, streams and errors at the border to other languages.
#include "bindings/tvm_ffi/call.h"

#include <tvm/ffi/dtype.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "flashinfer/jit.h"

namespace flashinfer::bindings {
namespace {

struct DTypeRow {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  DType dtype;
};
constexpr std::array kDTypes{
    DTypeRow{kDLFloat, 32, 1, DType::kF32},
    DTypeRow{kDLFloat, 16, 1, DType::kF16},
    DTypeRow{kDLBfloat, 16, 1, DType::kBF16},
    DTypeRow{kDLFloat8_e4m3fn, 8, 1, DType::kE4M3},
    DTypeRow{kDLFloat8_e5m2, 8, 1, DType::kE5M2},
    DTypeRow{kDLFloat4_e2m1fn, 4, 2, DType::kE2M1x2},
    DTypeRow{kDLFloat8_e8m0fnu, 8, 1, DType::kE8M0},
    DTypeRow{kDLInt, 8, 1, DType::kI8},
    DTypeRow{kDLUInt, 8, 1, DType::kU8},
    DTypeRow{kDLInt, 32, 1, DType::kI32},
    DTypeRow{kDLInt, 64, 1, DType::kI64},
    DTypeRow{kDLBool, 8, 1, DType::kBool},
    DTypeRow{kDLInt, 4, 2, DType::kI4x2},
};

DType DTypeOf(DLDataType type) {
  for (const DTypeRow& row : kDTypes) {
    if (row.code == type.code && row.bits == type.bits && row.lanes == type.lanes) return row.dtype;
  }
  throw Error(ErrorKind::kInvalidArgument,
              "a tensor's dtype is " + tvm::ffi::DLDataTypeToString(type) +
                  ", accepted: float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, "
                  "float8_e8m0fnu, float4_e2m1fnx2, int8, uint8, int32, int64, bool");
}

Device DeviceOf(DLDevice device) {
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:  // page-locked host memory
      return {};
    case kDLCUDA:
    case kDLCUDAManaged:
      return {DeviceType::kCuda, device.device_id};
    default:
      throw Error(ErrorKind::kInvalidArgument, "a tensor is on a device of DLPack type " +
                                                   std::to_string(device.device_type) +
                                                   ", accepted: host memory and CUDA devices");
  }
}

const char* ClassName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "ValueError";
    case ErrorKind::kUnsupported:
      return "flashinfer.BackendSupportedError";
    case ErrorKind::kCompile:
      return "flashinfer.CompileError";
    case ErrorKind::kDevice:
      return "flashinfer.DeviceError";
    case ErrorKind::kIo:
      return "OSError";
    case ErrorKind::kInternal:
      return "RuntimeError";
  }
  return "RuntimeError";
}

thread_local bool values_are_stored = false;

/// Whether it lies as the imaginary parts of complex numbers do, which torch keeps as they were
/// when the numbers are conjugated. DLPack does not say so.
bool MayBeNegated(const DLTensor& tensor) {
  const int64_t size = tensor.dtype.bits / 8;
  if (tensor.dtype.code != kDLFloat || tensor.strides == nullptr) return false;
  const auto address =
      reinterpret_cast<intptr_t>(tensor.data) + static_cast<intptr_t>(tensor.byte_offset);
  if (address / size % 2 == 0) return false;
  for (int i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] > 1 && tensor.strides[i] % 2 != 0) return false;
  }
  return true;
}

const TensorView* FirstOnDevice(std::span<TensorView* const> tables) {
  for (const TensorView* table : tables) {
    if (table->defined() && table->device().type == DeviceType::kCuda) return table;
  }
  return nullptr;
}

}  // namespace

void AssumeValuesAreStored(bool are_stored) { values_are_stored = are_stored; }

TensorView ViewOf(const DLTensor& tensor) {
  if (tensor.ndim > kMaxRank) {
    throw Error(ErrorKind::kInvalidArgument, "a tensor has " + std::to_string(tensor.ndim) +
                                                 " dimensions, at most " +
                                                 std::to_string(kMaxRank) + " are accepted");
  }
  const DType dtype = DTypeOf(tensor.dtype);
  if (!values_are_stored && MayBeNegated(tensor)) {
    throw tvm::ffi::Error("BufferError", "a tensor may be the negative of its memory", "");
  }
  const Device device = DeviceOf(tensor.device);
  const auto rank = static_cast<size_t>(tensor.ndim);
  auto* data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  const Dims shape(std::span<const int64_t>(tensor.shape, rank));
  if (tensor.strides == nullptr) return {static_cast<void*>(data), dtype, shape, device};
  const Dims strides(std::span<const int64_t>(tensor.strides, rank));
  return {static_cast<void*>(data), dtype, shape, strides, device};
}

TensorView As(const TensorView& tensor, DType dtype) {
  if (!tensor.defined() || tensor.dtype() == dtype) return tensor;
  if (SizeBytes(tensor.dtype()) != SizeBytes(dtype)) {
    throw Error(ErrorKind::kInvalidArgument,
                "a tensor's dtype is " + std::string(Name(tensor.dtype())) +
                    ", accepted: " + std::string(Name(dtype)) + " and others of its size");
  }
  return {tensor.data(), dtype, tensor.shape(), tensor.strides(), tensor.device()};
}

TensorView AsOneElement(std::string_view name, const TensorView& tensor) {
  if (!tensor.defined()) return tensor;
  if (tensor.num_elements() != 1) {
    throw Error(ErrorKind::kInvalidArgument,
                std::string(name) + ": is " + Text(tensor) + ", expected one number");
  }
  return {tensor.data(), tensor.dtype(), Dims{1}, tensor.device()};
}

TensorView AsRows(std::string_view name, const TensorView& tensor, int num_inner) {
  if (!tensor.defined() || tensor.rank() == num_inner + 1) return tensor;
  const int num_outer = tensor.rank() - num_inner;
  int64_t rows = 1;
  int64_t stride = 0;  // of a row; 0 until a dimension of more than one tells
  for (int i = num_outer - 1; i >= 0; --i) {
    if (tensor.shape(i) != 1) {
      if (stride == 0) {
        stride = tensor.stride(i);
      } else if (rows != 0 && tensor.stride(i) != stride * rows) {
        throw Error(ErrorKind::kInvalidArgument, std::string(name) + ": is " + Text(tensor) +
                                                     ", whose rows are not evenly spaced");
      }
    }
    rows *= tensor.shape(i);
  }
  Dims shape{rows};
  Dims strides{stride};
  for (int i = std::max(num_outer, 0); i < tensor.rank(); ++i) {
    shape.Append(tensor.shape(i));
    strides.Append(tensor.stride(i));
  }
  return {tensor.data(), tensor.dtype(), shape, strides, tensor.device()};
}

Stream StreamOf(const TensorView& tensor) {
  const Device device = tensor.device();
  if (device.type == DeviceType::kCpu) return {};
  return {device, TVMFFIEnvGetStream(kDLCUDA, device.index)};
}

void FetchTables(HostCopies& copies, std::span<TensorView* const> tables) {
  const TensorView* const table = FirstOnDevice(tables);
  if (table != nullptr) copies.Fetch(tables, StreamOf(*table));
}

void BeginTables(HostCopies& copies, std::span<TensorView* const> tables) {
  const TensorView* const table = FirstOnDevice(tables);
  if (table != nullptr) copies.Begin(tables, StreamOf(*table));
}

tvm::ffi::Error ErrorOf(const Error& error) {
  if (dynamic_cast<const MissingKernelError*>(&error) != nullptr) {
    return {"flashinfer.MissingJITCacheError", error.what(), ""};
  }
  return {ClassName(error.kind()), error.what(), ""};
}

tvm::ffi::Error ErrorOf(const std::exception& error) {
  const bool out_of_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return {out_of_memory ? "MemoryError" : "RuntimeError", error.what(), ""};
}

}  // namespace flashinfer::bindings
