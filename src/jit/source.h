// SPDX-License-Identifier: Apache-2.0
// The source of a kernel: embedded headers, and the unit that is rendered from a spec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  std::string spec;                  ///< text form, `norm.simt dtype=bf16 …`
  std::vector<std::string> headers;  ///< those that it includes
  std::string source;                ///< what the compiler reads
  int32_t num_threads;               ///< of a block
  int32_t smem_bytes;                ///< dynamic, of a block
  int32_t min_arch;                  ///< the lowest compute capability, 75
};

// How a value of a spec is written in C++. An enumeration of a family adds an overload beside its
// ValueText() and ParseValue().
std::string SourceText(bool value);
std::string SourceText(int32_t value);
std::string SourceText(int64_t value);
std::string SourceText(float value);
std::string SourceText(DType value);

/// Code of a user within a unit; it stands before the entry. Where MinBlocksPerSm() bounds the
/// registers, the unit asks for a block less, so that the code has some of its own.
struct UserCode {
  std::string name;      ///< behind the spec's text form, `variant=…`
  std::string header;    ///< that it needs beside the family's
  std::string text;      ///< lines
  std::string params;    ///< the type of the entry's parameters
  std::string argument;  ///< of Run() behind the spec
};

/// What the text of a unit is made from.
struct UnitParts {
  std::string_view type;
  std::string_view fields;
  size_t params_bytes;
  int32_t min_blocks;  ///< of MinBlocksPerSm(); 0: it bounds nothing
  std::string_view run;
};

/// Writes the text of a unit, and what user's code adds to its spec and headers.
void AppendUnit(const UnitParts& parts, const UserCode* user, Unit& unit);

/// Renders the unit of a spec: a struct with kName, kType, kHeader, kNamespace, kMinArch, a type
/// Params, a field list, and functions NumThreads(spec) and SmemBytes(spec) beside it;
/// MinBlocksPerSm(spec) where that bounds its registers, MinArch(spec) where some of its specs need
/// more than kMinArch. Its header has a function template Run<spec>(params) in the namespace
/// kNamespace.
template <class Spec>
Unit Render(const Spec& spec, const UserCode* user = nullptr) {
  Unit unit{.spec = FieldsText(Spec::kName, spec),
            .headers = {Spec::kHeader},
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
  int32_t min_blocks = 0;
  if constexpr (requires { MinBlocksPerSm(spec); }) min_blocks = MinBlocksPerSm(spec);
  AppendUnit({.type = Spec::kType,
              .fields = fields,
              .params_bytes = sizeof(typename Spec::Params),
              .min_blocks = min_blocks,
              .run = Spec::kNamespace},
             user, unit);
  return unit;
}

}  // namespace flashinfer::jit
