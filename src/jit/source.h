// SPDX-License-Identifier: Apache-2.0
// The source of a kernel: embedded headers, and the unit that is rendered from a spec.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/fields.h"

namespace flashinfer::jit {

/// A header under src/kernels, or one that host and device share.
struct EmbeddedHeader {
  std::string_view name;  ///< as it is included
  std::string_view text;
  std::string_view closure_hash;      ///< of names and texts of `closure`
  std::span<const uint16_t> closure;  ///< indices of itself and of all that it includes
};

/// Made by cmake/EmbedKernels.cmake.
std::span<const EmbeddedHeader> EmbeddedHeaders();
/// Throws kInternal when there is none of that name.
const EmbeddedHeader& FindHeader(std::string_view name);

/// One kernel, ready to be compiled for an architecture.
struct Unit {
  std::string spec;     ///< text form, `norm.simt dtype=bf16 …`
  std::string header;   ///< the one that it includes
  std::string source;   ///< what the compiler reads
  int32_t num_threads;  ///< of a block
  int32_t smem_bytes;   ///< dynamic, of a block
  int32_t min_arch;     ///< the lowest compute capability, 75
};

// How a value of a spec is written in C++. An enumeration of a family adds an overload beside its
// ValueText() and ParseValue().
std::string SourceText(bool value);
std::string SourceText(int32_t value);
std::string SourceText(int64_t value);
std::string SourceText(float value);
std::string SourceText(DType value);

/// Renders the unit of a spec: a struct with kName, kType, kHeader, kNamespace, kMinArch, a type
/// Params, a field list, and functions NumThreads(spec) and SmemBytes(spec) beside it;
/// MinBlocksPerSm(spec) where that bounds its registers, MinArch(spec) where some of its specs need
/// more than kMinArch. Its header has a function template Run<spec>(params) in the namespace
/// kNamespace.
template <class Spec>
Unit Render(const Spec& spec) {
  Unit unit{.spec = FieldsText(Spec::kName, spec),
            .header = Spec::kHeader,
            .source = {},
            .num_threads = NumThreads(spec),
            .smem_bytes = SmemBytes(spec),
            .min_arch = Spec::kMinArch};
  if constexpr (requires { MinArch(spec); }) unit.min_arch = MinArch(spec);
  std::string fields;
  ForEachField(spec, [&](std::string_view name, const auto& value) {
    fields.append(fields.empty() ? "." : ", .")
        .append(name)
        .append(" = ")
        .append(SourceText(value));
  });
  const std::string_view type = Spec::kType;
  constexpr bool kIsBounded = requires { MinBlocksPerSm(spec); };
  unit.source = fmt::format(
      "// {spec}\n"
      "#include \"kernels/portable.h\"\n"
      "#include \"{header}\"\n\n"
      "using namespace flashinfer;\n"
      "using namespace flashinfer::kernels;\n\n"
      "constexpr {type} kSpec{{{fields}}};\n"
      "static_assert(sizeof({type}::Params) == {params_bytes});\n"
      "static_assert(NumThreads(kSpec) == {num_threads});\n"
      "static_assert(SmemBytes(kSpec) == {smem_bytes});\n\n"
      "extern \"C\" __global__ void __launch_bounds__(NumThreads(kSpec){min_blocks})\n"
      "flashinfer_kernel(const __grid_constant__ {type}::Params params) {{\n"
      "  {run}::Run<kSpec>(params);\n"
      "}}\n",
      fmt::arg("spec", unit.spec), fmt::arg("header", unit.header), fmt::arg("type", type),
      fmt::arg("fields", fields), fmt::arg("params_bytes", sizeof(typename Spec::Params)),
      fmt::arg("num_threads", unit.num_threads), fmt::arg("smem_bytes", unit.smem_bytes),
      fmt::arg("min_blocks", kIsBounded ? ", MinBlocksPerSm(kSpec)" : ""),
      fmt::arg("run", Spec::kNamespace));
  return unit;
}

}  // namespace flashinfer::jit
