// SPDX-License-Identifier: Apache-2.0
// Attention over shared prefixes: a prefill a level, whose states are merged.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/check.h"
#include "core/fields.h"
#include "core/log.h"
#include "cuda/device.h"
#include "dispatch/choose.h"
#include "ops/batch_prefill.h"
#include "ops/merge_state.h"
#include "ops/planned_attention.h"

namespace flashinfer {
namespace {

void CheckCascadeProblem(const AttentionProblem& p) {
  FLASHINFER_CHECK(p.mask == MaskMode::kNone || p.mask == MaskMode::kCausal,
                   "mask: is {}, accepted in a cascade: none, causal", Name(p.mask));
  FLASHINFER_CHECK(p.window_left == -1, "window_left: is {}, accepted in a cascade: -1",
                   p.window_left);
  FLASHINFER_CHECK(p.pos_encoding == PositionEncoding::kNone,
                   "pos_encoding: is {}, accepted in a cascade: none", Name(p.pos_encoding));
  FLASHINFER_CHECK(p.variant == nullptr, "variant: is {}, accepted in a cascade: none",
                   p.variant->name());
  FLASHINFER_CHECK(!p.has_bias && !p.has_sinks, "{}: is true, accepted in a cascade: false",
                   p.has_bias ? "has_bias" : "has_sinks");
  FLASHINFER_CHECK(
      p.dtype_out == DType::kF32 || p.dtype_out == DType::kF16 || p.dtype_out == DType::kBF16,
      "dtype_out: is {}, accepted in a cascade: f32, f16, bf16", Name(p.dtype_out));
  FLASHINFER_CHECK(p.page_size > 0, "page_size: is {}, expected 1 or more", p.page_size);
}

/// What a level's queries give before they are merged into the last level's: v, s, and the last
/// level's s where the caller wants none.
struct StateBytes {
  StateBytes(const AttentionProblem& p, int64_t num_tokens)
      : v(Rounded(num_tokens * p.num_qo_heads * p.head_dim_vo * SizeBytes(p.dtype_out))),
        s(Rounded(num_tokens * p.num_qo_heads * SizeBytes(DType::kF32))) {}
  static size_t Rounded(int64_t bytes) { return (static_cast<size_t>(bytes) + 255) / 256 * 256; }
  size_t all() const { return v + 2 * s; }
  size_t v;
  size_t s;
};

int64_t NumTokens(const CascadeLevel& level) {
  CheckIndptr("qo_indptr", level.qo_indptr);
  const int64_t last = level.qo_indptr.shape(0) - 1;
  return level.qo_indptr.data_as<const int32_t>()[last * level.qo_indptr.stride(0)];
}

StateRows RowsOf(const TensorView& v, const TensorView& s) {
  return {v.data(), s.data_as<float>(), v.stride(0), v.stride(1), s.stride(0), s.stride(1)};
}

void LogPlan(const std::string& object, const AttentionProblem& problem,
             std::span<const CascadeLevel> levels) {
  std::vector<std::string> names;
  std::vector<LogArgument> arguments{{"object", object},
                                     {"problem", FieldsText("cascade", problem)},
                                     {"num_levels", std::to_string(levels.size())}};
  names.reserve(4 * levels.size());
  for (size_t i = 0; i < levels.size(); ++i) {
    const PageTable& pages = levels[i].pages;
    for (const auto& [field, tensor] :
         {std::pair<const char*, const TensorView&>{"qo_indptr", levels[i].qo_indptr},
          {"indptr", pages.indptr},
          {"indices", pages.indices},
          {"last_page_len", pages.last_page_len}}) {
      arguments.emplace_back(names.emplace_back(fmt::format("levels[{}].{}", i, field)), tensor);
    }
  }
  LogCall("cascade.plan", arguments);
}

}  // namespace

struct MultiLevelCascadeAttention::Impl {
  explicit Impl(Workspace& w) : workspace(w) {}

  /// The part of the workspace behind the states, which all levels use in turn. Another plan may
  /// have made the workspace grow: it is asked each time where it is.
  void Place() {
    char* at = static_cast<char*>(workspace.Reserve(states->all() + attention_bytes));
    if (at == block) return;
    block = at;
    attention = Workspace::Borrow(at + states->all(), attention_bytes, workspace.device());
  }

  Workspace& workspace;
  Workspace attention;  // what PlannedAttention objects point to
  char* block = nullptr;
  std::optional<StateBytes> states;
  size_t attention_bytes = 0;
  AttentionProblem problem;
  std::vector<std::unique_ptr<PlannedAttention>> levels;
  size_t num_levels = 0;  // 0: nothing is planned
  MergeStateOp::Entry merge = nullptr;
};

MultiLevelCascadeAttention::MultiLevelCascadeAttention(Workspace& workspace)
    : impl_(std::make_unique<Impl>(workspace)) {}
MultiLevelCascadeAttention::MultiLevelCascadeAttention(MultiLevelCascadeAttention&&) noexcept =
    default;
MultiLevelCascadeAttention& MultiLevelCascadeAttention::operator=(
    MultiLevelCascadeAttention&&) noexcept = default;
MultiLevelCascadeAttention::~MultiLevelCascadeAttention() = default;

size_t MultiLevelCascadeAttention::WorkspaceBytes(const AttentionProblem& problem,
                                                  int64_t max_groups, int64_t max_tokens,
                                                  Backend backend) {
  CheckCascadeProblem(problem);
  return StateBytes(problem, max_tokens).all() +
         PlannedAttention::WorkspaceBytes(Choose<BatchPrefillOp>, problem, max_groups, max_tokens,
                                          backend);
}

void MultiLevelCascadeAttention::Plan(const AttentionProblem& given,
                                      std::span<const CascadeLevel> levels, Backend backend,
                                      Stream stream) {
  Impl& impl = *impl_;
  const Device device = impl.workspace.device();
  AttentionProblem problem = given;
  problem.arch = cuda::ArchOf(device);
  if (LogLevel() > 0) [[unlikely]]
    LogPlan(ObjectText(&impl), problem, levels);
  impl.num_levels = 0;  // half a plan must not run
  CheckCascadeProblem(problem);
  FLASHINFER_CHECK(!levels.empty(), "levels: is empty, expected 1 or more");
  const int64_t num_tokens = NumTokens(levels[0]);
  int64_t max_groups = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    FLASHINFER_CHECK(NumTokens(levels[i]) == num_tokens,
                     "levels[{}].qo_indptr: has {} query tokens, levels[0] has {}", i,
                     NumTokens(levels[i]), num_tokens);
    max_groups = std::max(max_groups, levels[i].qo_indptr.shape(0) - 1);
  }
  // Candidates of attention and of merging have the same names on the CPU alone.
  impl.merge = Choose<MergeStateOp>({.dtype = problem.dtype_out, .arch = problem.arch},
                                    device.type == DeviceType::kCpu ? backend : Backend());
  impl.states.emplace(problem, num_tokens);
  impl.attention_bytes = PlannedAttention::WorkspaceBytes(Choose<BatchPrefillOp>, problem,
                                                          max_groups, num_tokens, backend);
  // A workspace that cannot hold every partial result gets plans with fewer splits.
  const size_t room = impl.workspace.max_bytes();
  if (room > impl.states->all()) {
    impl.attention_bytes = std::min(impl.attention_bytes, room - impl.states->all());
  }
  impl.block = nullptr;
  impl.Place();
  while (impl.levels.size() < levels.size()) {
    impl.levels.push_back(
        std::make_unique<PlannedAttention>("", Choose<BatchPrefillOp>, impl.attention));
  }
  for (size_t i = 0; i < levels.size(); ++i) {
    AttentionProblem p = problem;
    if (i + 1 < levels.size()) p.mask = MaskMode::kNone;
    impl.levels[i]->Plan(p, {.qo_indptr = levels[i].qo_indptr, .pages = levels[i].pages}, backend,
                         stream);
  }
  impl.problem = problem;
  impl.num_levels = levels.size();
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("cascade.plan", {});
}

void MultiLevelCascadeAttention::Run(const TensorView& q, const PagedKvCache& cache,
                                     const TensorView& out, const TensorView& lse,
                                     const AttentionExtras& extras, Stream stream) const {
  Impl& impl = *impl_;
  if (LogLevel() > 0) [[unlikely]] {
    std::vector<LogArgument> arguments = LogArgumentsOf({q, cache, out, lse, extras});
    arguments.insert(arguments.begin(), {"object", ObjectText(&impl)});
    LogCall("cascade.run", arguments);
  }
  FLASHINFER_CHECK(impl.num_levels > 0, "Run() was called before a successful Plan()");
  CheckTensor("q", q).Rank(3);
  impl.Place();
  const AttentionProblem& p = impl.problem;
  const Dims rows{q.shape(0), p.num_qo_heads};
  char* const at = impl.block;
  const TensorView v_level(at, p.dtype_out, {q.shape(0), p.num_qo_heads, p.head_dim_vo},
                           out.device());
  const TensorView s_level(at + impl.states->v, DType::kF32, rows, out.device());
  const TensorView s_last = lse.defined() ? lse
                                          : TensorView(at + impl.states->v + impl.states->s,
                                                       DType::kF32, rows, out.device());
  impl.levels[impl.num_levels - 1]->Run({q, cache, out, s_last, extras}, stream);
  for (size_t i = 0; i + 1 < impl.num_levels; ++i) {
    impl.levels[i]->Run({q, cache, v_level, s_level, extras}, stream);
    const StateRows merged = RowsOf(out, s_last);
    impl.merge({.a = merged,
                .b = RowsOf(v_level, s_level),
                .merged = merged,
                .num_tokens = q.shape(0),
                .num_heads = p.num_qo_heads,
                .head_dim = p.head_dim_vo,
                .dtype = p.dtype_out,
                .stream = cuda::StreamOn(impl.workspace.device(), stream)});
  }
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("cascade.run", {{"out", out}, {"lse", lse}});
}

}  // namespace flashinfer
