// SPDX-License-Identifier: Apache-2.0
// Values as C++ source, and the look-up of embedded headers.
#include "jit/source.h"

#include <algorithm>
#include <array>

#include "core/check.h"

namespace flashinfer::jit {

const EmbeddedHeader& FindHeader(std::string_view name) {
  for (const EmbeddedHeader& header : EmbeddedHeaders()) {
    if (header.name == name) return header;
  }
  throw Error(ErrorKind::kInternal, fmt::format("no kernel header '{}' is embedded", name));
}

std::string SourceText(bool value) { return value ? "true" : "false"; }
std::string SourceText(int32_t value) { return std::to_string(value); }
std::string SourceText(int64_t value) { return std::to_string(value); }
// Hexadecimal: exact.
std::string SourceText(float value) { return fmt::format("{:a}f", value); }

std::string SourceText(DType value) {
  constexpr std::array<std::string_view, kNumDTypes> kNames{
      "kF32", "kF16",  "kBF16", "kE4M3", "kE5M2", "kE2M1x2", "kE8M0",
      "kI8",  "kI4x2", "kU8",   "kI32",  "kI64",  "kBool"};
  return fmt::format("DType::{}", kNames.at(static_cast<size_t>(value)));
}

void AppendUnit(const UnitParts& parts, const UserCode* user, Unit& unit) {
  if (user != nullptr) {
    unit.spec.append(" ").append(user->name);
    unit.headers.push_back(user->header);
  }
  unit.source = fmt::format("// {}\n#include \"kernels/portable.h\"\n", unit.spec);
  for (const std::string& header : unit.headers) {
    unit.source.append(fmt::format("#include \"{}\"\n", header));
  }
  unit.source.append("\nusing namespace flashinfer;\nusing namespace flashinfer::kernels;\n\n");
  std::string params = fmt::format("{}::Params", parts.type);
  std::string arguments = "kSpec";
  std::string min_blocks(parts.min_blocks > 0 ? ", MinBlocksPerSm(kSpec)" : "");
  if (user != nullptr) {
    unit.source.append(user->text);
    // Lines of the unit count on behind the user's.
    const auto line = std::count(unit.source.begin(), unit.source.end(), '\n') + 2;
    unit.source.append(fmt::format("#line {} \"unit.cu\"\n", line));
    params = user->params;
    arguments.append(", ").append(user->argument);
    if (parts.min_blocks > 0) min_blocks = fmt::format(", {}", std::max(1, parts.min_blocks - 1));
  }
  unit.source.append(fmt::format(
      "constexpr {type} kSpec{{{fields}}};\n"
      "static_assert(sizeof({type}::Params) == {params_bytes});\n"
      "static_assert(NumThreads(kSpec) == {num_threads});\n"
      "static_assert(SmemBytes(kSpec) == {smem_bytes});\n\n"
      "extern \"C\" __global__ void __launch_bounds__(NumThreads(kSpec){min_blocks})\n"
      "flashinfer_kernel(const __grid_constant__ {params} params) {{\n"
      "  {run}::Run<{arguments}>(params);\n"
      "}}\n",
      fmt::arg("type", parts.type), fmt::arg("fields", parts.fields),
      fmt::arg("params_bytes", parts.params_bytes), fmt::arg("num_threads", unit.num_threads),
      fmt::arg("smem_bytes", unit.smem_bytes), fmt::arg("min_blocks", min_blocks),
      fmt::arg("params", params), fmt::arg("run", parts.run), fmt::arg("arguments", arguments)));
}

}  // namespace flashinfer::jit
