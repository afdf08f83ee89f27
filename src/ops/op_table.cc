// SPDX-License-Identifier: Apache-2.0
// The table of operators.
#include "ops/op_table.h"

#include <array>
#include <string>

#include "cuda/device.h"
#include "ops/activation.h"
#include "ops/batch_decode.h"
#include "ops/batch_prefill.h"
#include "ops/chain_speculative.h"
#include "ops/gemm.h"
#include "ops/grouped_gemm.h"
#include "ops/linear.h"
#include "ops/merge_state.h"
#include "ops/merge_states.h"
#include "ops/mla.h"
#include "ops/norm.h"
#include "ops/packbits.h"
#include "ops/page_copy.h"
#include "ops/page_positions.h"
#include "ops/problem_check.h"
#include "ops/quantize.h"
#include "ops/quantize_blocks.h"
#include "ops/rope.h"
#include "ops/sampling.h"
#include "ops/segment_gemm.h"
#include "ops/swizzle_scales.h"
#include "ops/token_filter.h"
#include "ops/topk.h"

namespace flashinfer {
namespace {

template <class Problem>
concept HasArch = requires(Problem problem) {
  problem.arch;
};

/// Why no device here has the architecture; empty when one does.
std::string WhyNoDevice(int32_t arch) {
  std::string why;
  if (!cuda::Available(&why)) return why;
  for (int32_t i = 0; i < cuda::NumDevices(); ++i) {
    if (cuda::Properties({DeviceType::kCuda, i}).arch == arch) return "";
  }
  return fmt::format("no device of SM{} is here", arch);
}

template <class Op>
Explanation ExplainFields(const std::vector<std::string_view>& fields, Backend backend,
                          Machine machine) {
  const auto problem = ParseFields<typename Op::Problem>(fields);
  CheckProblem(problem);
  std::string note;
  if constexpr (HasArch<typename Op::Problem>) {
    if (machine == Machine::kThis && problem.arch != 0) note = WhyNoDevice(problem.arch);
  }
  // What a device would take can be told without one.
  Explanation explanation = ExplainOp<Op>(problem, backend, note.empty() ? machine : Machine::kAny);
  explanation.note = note;
  return explanation;
}

template <class Op, size_t kSize>
constexpr OpRow Row(const std::array<std::string_view, kSize>& matrix) {
  return {Op::kName, ExplainFields<Op>, ChosenNames<Op>, matrix, HasArch<typename Op::Problem>};
}

constexpr std::array<std::string_view, 9> kNorm{
    "dtype=f32 dtype_weight=f32 dtype_out=f32",
    "dtype=f16 dtype_weight=f16 dtype_out=f16",
    "dtype=bf16 dtype_weight=bf16 dtype_out=bf16",
    "dtype=bf16 dtype_weight=f32 dtype_out=bf16",
    "dtype=bf16 dtype_weight=bf16 dtype_out=e4m3",
    "dtype=bf16 dtype_weight=bf16 dtype_out=e5m2",
    "adds_residual=1 dtype=bf16 dtype_weight=bf16 dtype_out=bf16",
    "kind=gemma dtype=bf16 dtype_weight=bf16 dtype_out=bf16",
    "kind=layer dtype=bf16 dtype_weight=f32 dtype_out=bf16"};

constexpr std::array<std::string_view, 12> kLinear{
    "format=f32",  "format=f16",  "format=bf16", "format=q4_0", "format=q4_1", "format=q8_0",
    "format=q4_k", "format=q6_k", "format=q5_0", "format=q5_1", "format=q5_k", "format=mxfp4"};
constexpr std::array<std::string_view, 3> kGatherRows{"format=bf16", "format=q8_0", "format=q6_k"};
constexpr std::array<std::string_view, 6> kRope{
    "dtype=f32 dtype_out=f32 interleaved=0",   "dtype=f16 dtype_out=f16 interleaved=0",
    "dtype=bf16 dtype_out=bf16 interleaved=0", "dtype=bf16 dtype_out=bf16 interleaved=1",
    "dtype=bf16 dtype_out=e4m3 interleaved=0", "dtype=bf16 dtype_out=e5m2 interleaved=0"};

constexpr std::array<std::string_view, 2> kPackBits{"has_segments=0", "has_segments=1"};

constexpr std::array<std::string_view, 6> kQuantize{
    "dtype=bf16 dtype_q=e4m3 group_size=0",   "dtype=bf16 dtype_q=e4m3 group_size=128",
    "dtype=bf16 dtype_q=e5m2 group_size=128", "dtype=bf16 dtype_q=i8 group_size=128",
    "inverse=1 dtype=bf16 dtype_q=e4m3",      "inverse=1 dtype=bf16 dtype_q=i8"};

constexpr std::array<std::string_view, 6> kQuantizeBlocks{
    "format=mxfp8_e4m3 dtype=bf16",      "format=mxfp8_e5m2 dtype=bf16",
    "format=mxfp4 dtype=bf16",           "format=nvfp4 dtype=bf16",
    "format=mxfp4 inverse=1 dtype=bf16", "format=nvfp4 inverse=1 dtype=bf16"};

constexpr std::array<std::string_view, 1> kSwizzleScales{"layout=128x4"};

constexpr std::array<std::string_view, 7> kActivation{
    "kind=silu dtype=f32 dtype_out=f32",       "kind=silu dtype=f16 dtype_out=f16",
    "kind=silu dtype=bf16 dtype_out=bf16",     "kind=silu dtype=bf16 dtype_out=e4m3",
    "kind=silu dtype=bf16 dtype_out=e5m2",     "kind=gelu dtype=bf16 dtype_out=bf16",
    "kind=gelu_tanh dtype=bf16 dtype_out=bf16"};

constexpr std::array<std::string_view, 1> kF32{"dtype=f32"};
constexpr std::array<std::string_view, 3> kFloatTypes{"dtype=f32", "dtype=f16", "dtype=bf16"};

constexpr std::array<std::string_view, 9> kAttention{
    "dtype_q=f32 dtype_kv=f32 dtype_out=f32",
    "dtype_q=f16 dtype_kv=f16 dtype_out=f16",
    "dtype_q=bf16 dtype_kv=bf16 dtype_out=bf16",
    "dtype_q=f32 dtype_kv=f16 dtype_out=f32",
    "dtype_q=bf16 dtype_kv=f16 dtype_out=bf16 head_dim_qk=192 head_dim_vo=128",
    "dtype_q=bf16 dtype_kv=e4m3 dtype_out=bf16",
    "dtype_q=bf16 dtype_kv=e5m2 dtype_out=bf16",
    "dtype_q=bf16 dtype_kv=i8 dtype_out=bf16",
    "dtype_q=e4m3 dtype_kv=e4m3 dtype_out=bf16"};

constexpr std::array<std::string_view, 6> kMla{
    "dtype_q=f32 dtype_kv=f32 dtype_out=f32",    "dtype_q=f16 dtype_kv=f16 dtype_out=f16",
    "dtype_q=bf16 dtype_kv=bf16 dtype_out=bf16", "dtype_q=bf16 dtype_kv=e4m3 dtype_out=bf16",
    "dtype_q=bf16 dtype_kv=e5m2 dtype_out=bf16", "dtype_q=bf16 dtype_kv=i8 dtype_out=bf16"};

constexpr std::array<std::string_view, 1> kHost{"arch=0"};

constexpr std::array<std::string_view, 8> kPageCopy{
    "dtype=f32 dtype_kv=f32", "dtype=f16 dtype_kv=f16",   "dtype=bf16 dtype_kv=bf16",
    "dtype=f32 dtype_kv=f16", "dtype=bf16 dtype_kv=e4m3", "dtype=bf16 dtype_kv=e5m2",
    "dtype=bf16 dtype_kv=i8", "dtype=e4m3 dtype_kv=e4m3"};

constexpr std::array<std::string_view, 5> kGemm{
    "dtype_a=f32 dtype_b=f32 dtype_out=f32", "dtype_a=f16 dtype_b=f16 dtype_out=f16",
    "dtype_a=bf16 dtype_b=bf16 dtype_out=bf16", "dtype_a=e4m3 dtype_b=e4m3 dtype_out=bf16",
    "dtype_a=e5m2 dtype_b=e4m3 dtype_out=f32"};
constexpr std::array<std::string_view, 3> kSegmentGemm{
    "dtype=f32 dtype_out=f32", "dtype=f16 dtype_out=f16", "dtype=bf16 dtype_out=bf16"};

constexpr std::array<std::string_view, 5> kGroupedGemm{
    "dtype_a=f32 dtype_b=f32 dtype_out=f32", "dtype_a=f16 dtype_b=f16 dtype_out=f16",
    "dtype_a=bf16 dtype_b=bf16 dtype_out=bf16", "dtype_a=e4m3 dtype_b=e4m3 dtype_out=bf16",
    "dtype_a=e4m3 dtype_b=e4m3 dtype_out=bf16 has_scales=1"};

constexpr OpRow kTable[] = {
    Row<PageAppendOp>(kPageCopy),
    Row<PageGatherOp>(kPageCopy),
    Row<BatchIndicesPositionsOp>(kHost),
    Row<SeqLensOp>(kHost),
    Row<MergeStateOp>(kFloatTypes),
    Row<MergeStatesOp>(kFloatTypes),
    Row<BatchDecodeOp>(kAttention),
    Row<BatchPrefillOp>(kAttention),
    Row<MlaOp>(kMla),
    Row<GemmOp>(kGemm),
    Row<SegmentGemmOp>(kSegmentGemm),
    Row<GroupedGemmOp>(kGroupedGemm),
    Row<LinearOp>(kLinear),
    Row<GatherRowsOp>(kGatherRows),
    Row<NormOp>(kNorm),
    Row<RopeOp>(kRope),
    Row<ActivationOp>(kActivation),
    Row<QuantizeOp>(kQuantize),
    Row<QuantizeBlocksOp>(kQuantizeBlocks),
    Row<SwizzleScalesOp>(kSwizzleScales),
    Row<PackBitsOp>(kPackBits),
    Row<SoftmaxOp>(kFloatTypes),
    Row<SamplingOp>(kFloatTypes),
    Row<ArgMaxOp>(kFloatTypes),
    Row<TokenFilterOp>(kFloatTypes),
    Row<TopKOp>(kFloatTypes),
    Row<ChainSpeculativeOp>(kF32),
};

}  // namespace

std::span<const OpRow> OpTable() { return kTable; }

Explanation Explain(std::string_view problem) {
  std::vector<std::string_view> words = SplitWords(problem);
  std::vector<std::string> names;
  for (const OpRow& row : OpTable()) {
    if (!words.empty() && row.name == words.front()) {
      words.erase(words.begin());
      return row.explain(words, EffectiveBackend(Backend()), Machine::kThis);
    }
    names.emplace_back(row.name);
  }
  throw Error(
      ErrorKind::kInvalidArgument,
      fmt::format("'{}' does not begin with an operator; operators: {}", problem, Join(names)));
}

std::vector<OpBackends> ChosenBackends() {
  std::vector<OpBackends> all;
  for (const OpRow& row : OpTable()) {
    std::vector<std::string> names = row.chosen_names();
    if (!names.empty()) all.push_back({std::string(row.name), std::move(names)});
  }
  return all;
}

namespace {

/// Architectures that a column of the support matrix stands for, and what was done there; host
/// memory is 0.
struct MatrixColumn {
  std::string_view title;
  std::array<int32_t, 5> archs;  // the rest are 0
};
constexpr MatrixColumn kMatrixColumns[] = {{"CPU: run", {}},
                                           {"SM75: compiled", {75}},
                                           {"SM80 to SM89: compiled", {80, 86, 87, 88, 89}},
                                           {"SM90: run", {90}},
                                           {"SM100 to SM121: compiled", {100, 103, 110, 120, 121}}};

/// Candidates that take the problem, without what all of a kind begin with; or why none does.
std::string MatrixCell(const OpRow& row, std::string_view fields, int32_t arch) {
  const std::string_view backend = arch == 0 ? "cpu" : "cuda";
  if (arch != 0 && !row.has_arch) return "no kernel";
  std::vector<std::string_view> words = SplitWords(fields);
  const std::string arch_word = fmt::format("arch={}", arch);
  if (arch != 0) {
    std::erase_if(words, [](std::string_view word) { return word.starts_with("arch="); });
    words.emplace_back(arch_word);
  }
  std::vector<std::string> accepting;
  bool is_all = true;
  std::string reason = "no kernel";
  for (const Verdict& v : row.explain(words, Backend(), Machine::kAny).verdicts) {
    if (!Names(Backend(backend), v.candidate)) continue;
    is_all = is_all && v.accepted;
    if (v.accepted) accepting.push_back(v.candidate.substr(backend.size() + 1));
    if (!v.accepted) reason = v.reason;
  }
  if (accepting.empty()) return reason;
  return arch == 0 && is_all ? "all" : Join(accepting);
}

/// One cell for all architectures of a column where they agree.
std::string MatrixCell(const OpRow& row, std::string_view fields, const MatrixColumn& column) {
  const std::string first = MatrixCell(row, fields, column.archs[0]);
  std::string each;
  bool is_same = true;
  for (int32_t arch : column.archs) {
    if (arch == 0) continue;
    const std::string cell = MatrixCell(row, fields, arch);
    is_same = is_same && cell == first;
    each += fmt::format("{}SM{}: {}", each.empty() ? "" : "; ", arch, cell);
  }
  return is_same ? first : each;
}

}  // namespace

std::string SupportMatrix() {
  std::string text = "| Operator | Problem |";
  std::string line = "|---|---|";
  for (const MatrixColumn& column : kMatrixColumns) {
    text += fmt::format(" {} |", column.title);
    line += "---|";
  }
  text += "\n" + line + "\n";
  for (const OpRow& row : OpTable()) {
    for (std::string_view fields : row.matrix) {
      text += fmt::format("| `{}` | `{}` |", row.name, fields);
      for (const MatrixColumn& column : kMatrixColumns) {
        text += fmt::format(" {} |", MatrixCell(row, fields, column));
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace flashinfer
