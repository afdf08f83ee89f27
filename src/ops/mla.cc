// SPDX-License-Identifier: Apache-2.0
// Latent attention: check, choose and plan; then run.
#include "ops/mla.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"
#include "core/fields.h"
#include "core/log.h"
#include "cuda/device.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

void CheckProblem(const MlaProblem& p) {
  FLASHINFER_CHECK(p.num_heads > 0, "num_heads: is {}, expected 1 or more", p.num_heads);
  FLASHINFER_CHECK(p.head_dim_ckv > 0 && p.head_dim_ckv % 8 == 0 && p.head_dim_ckv <= 512,
                   "head_dim_ckv: is {}, accepted: multiples of 8 up to 512", p.head_dim_ckv);
  FLASHINFER_CHECK(p.head_dim_kpe >= 0 && p.head_dim_kpe % 8 == 0 && p.head_dim_kpe <= 512,
                   "head_dim_kpe: is {}, accepted: 0 and multiples of 8 up to 512", p.head_dim_kpe);
  FLASHINFER_CHECK(p.page_size > 0, "page_size: is {}, expected 1 or more", p.page_size);
  FLASHINFER_CHECK(p.window_left >= -1, "window_left: is {}, expected -1 or more", p.window_left);
  FLASHINFER_CHECK(std::isfinite(p.sm_scale) && p.sm_scale != 0,
                   "sm_scale: is {}, expected a finite number other than 0", p.sm_scale);
  FLASHINFER_CHECK(p.logits_soft_cap >= 0 && std::isfinite(p.logits_soft_cap),
                   "logits_soft_cap: is {}, expected a finite number, 0 or more",
                   p.logits_soft_cap);
  FLASHINFER_CHECK(p.fixed_split_size >= 0 && p.fixed_split_size % 64 == 0,
                   "fixed_split_size: is {}, accepted: 0 and multiples of 64", p.fixed_split_size);
}

void ReadPages(const MlaPageTable& pages, int64_t page_size, AttentionTables& tables) {
  CheckIndptr("indptr", pages.indptr);
  const int64_t num_requests = pages.indptr.shape(0) - 1;
  CheckTensor("kv_len", pages.kv_len).On({}).Is(DType::kI32).Shape({num_requests});
  CheckTensor("indices", pages.indices).On(tables.device).Is(DType::kI32).Rank(1);
  const auto indptr = [&](int64_t i) {
    return pages.indptr.data_as<const int32_t>()[i * pages.indptr.stride(0)];
  };
  FLASHINFER_CHECK(pages.indices.shape(0) >= indptr(num_requests),
                   "indices: has {} pages, indptr ends at {}", pages.indices.shape(0),
                   indptr(num_requests));
  tables.kv_len.resize(static_cast<size_t>(num_requests));
  tables.kv_begin.resize(static_cast<size_t>(num_requests) + 1);
  for (int64_t b = 0; b < num_requests; ++b) {
    const int64_t kv_len = pages.kv_len.data_as<const int32_t>()[b * pages.kv_len.stride(0)];
    const int64_t room = (indptr(b + 1) - indptr(b)) * page_size;
    FLASHINFER_CHECK(kv_len >= 0 && kv_len <= room,
                     "kv_len[{}]: is {}, its pages hold 0 to {} tokens", b, kv_len, room);
    tables.kv_begin[static_cast<size_t>(b)] = indptr(b);
    tables.kv_len[static_cast<size_t>(b)] = kv_len;
  }
  tables.kv_begin[static_cast<size_t>(num_requests)] = indptr(num_requests);
  tables.pages = pages.indices.data_as<const int32_t>();
  tables.pages_stride = pages.indices.stride(0);
}

void CheckScales(const MlaProblem& p, const MlaCache& cache, Device device) {
  for (const auto& [name, scale] :
       {std::pair{"ckv_scale", cache.ckv_scale}, std::pair{"kpe_scale", cache.kpe_scale}}) {
    FLASHINFER_CHECK(std::isfinite(scale) && scale > 0, "{}: is {}, expected a number above 0",
                     name, scale);
    FLASHINFER_CHECK(SizeBytes(p.dtype_kv) == 1 || scale == 1,
                     "{}: is {}, accepted with a cache of {}: 1", name, scale, Name(p.dtype_kv));
  }
  const TensorView& scales = cache.ckv_scales;
  if (!scales.defined()) return;
  FLASHINFER_CHECK(SizeBytes(p.dtype_kv) == 1, "ckv_scales: given with a cache of {}",
                   Name(p.dtype_kv));
  FLASHINFER_CHECK(cache.ckv_scale == 1, "ckv_scale: is {}, accepted with ckv_scales: 1",
                   cache.ckv_scale);
  CheckTensor("ckv_scales", scales)
      .On(device)
      .Is(DType::kF32)
      .Shape({cache.ckv.shape(0), p.page_size, -1});
  const int64_t num_blocks = scales.shape(2);
  FLASHINFER_CHECK(
      num_blocks > 0 && p.head_dim_ckv % num_blocks == 0 && p.head_dim_ckv / num_blocks % 32 == 0,
      "ckv_scales: has {} blocks, expected to divide head_dim_ckv, {}, into multiples "
      "of 32",
      num_blocks, p.head_dim_ckv);
}

void CheckTensors(const MlaProblem& p, const AttentionTables& tables, const MlaTensors& t) {
  const int64_t num_tokens = tables.num_tokens();
  const auto check_q = [&](std::string_view name, const TensorView& q, int64_t dim) {
    CheckTensor(name, q)
        .On(tables.device)
        .Is(p.dtype_q)
        .Shape({num_tokens, p.num_heads, dim})
        .LastDimDense();
  };
  const auto check_cache = [&](std::string_view name, const TensorView& cache, int64_t dim) {
    CheckTensor(name, cache)
        .On(tables.device)
        .Is(p.dtype_kv)
        .Shape({-1, p.page_size, dim})
        .LastDimDense();
  };
  check_q("q_nope", t.q_nope, p.head_dim_ckv);
  check_cache("cache.ckv", t.cache.ckv, p.head_dim_ckv);
  int64_t num_pages = t.cache.ckv.shape(0);
  if (p.head_dim_kpe > 0) {
    check_q("q_pe", t.q_pe, p.head_dim_kpe);
    check_cache("cache.kpe", t.cache.kpe, p.head_dim_kpe);
    num_pages = std::min(num_pages, t.cache.kpe.shape(0));
  }
  CheckScales(p, t.cache, tables.device);
  CheckTensor("out", t.out)
      .On(tables.device)
      .Is(p.dtype_out)
      .Shape({num_tokens, p.num_heads, p.head_dim_ckv})
      .LastDimDense()
      .NoOverlap()
      .ApartOrSame("q_nope", t.q_nope)
      .Apart("q_pe", t.q_pe)
      .Apart("cache.ckv", t.cache.ckv)
      .Apart("cache.kpe", t.cache.kpe);
  if (t.lse.defined()) {
    CheckTensor("lse", t.lse)
        .On(tables.device)
        .Is(DType::kF32)
        .Shape({num_tokens, p.num_heads})
        .NoOverlap();
  }
  if (tables.device.type != DeviceType::kCpu) return;  // where the indices cannot be read
  // Pages behind kv_len may be of no meaning: requests keep room for tokens to come.
  for (size_t b = 0; b < tables.kv_len.size(); ++b) {
    const int64_t used = (tables.kv_len[b] + p.page_size - 1) / p.page_size;
    for (int64_t i = tables.kv_begin[b]; i < tables.kv_begin[b] + used; ++i) {
      const int32_t page = tables.pages[i * tables.pages_stride];
      FLASHINFER_CHECK(page >= 0 && page < num_pages,
                       "indices[{}]: is {}, the cache has pages 0 to {}", i, page, num_pages - 1);
    }
  }
}

}  // namespace

void MlaExecutor::PlanOnDevice(const MlaProblem&, const AttentionTables&, const DeviceLengths&,
                               Workspace&, Stream) {
  throw Error(ErrorKind::kUnsupported, "the backend of this problem plans on the host only");
}

struct BatchMla::Impl {
  explicit Impl(Workspace& w) : workspace(w) {}
  Workspace& workspace;
  MlaProblem problem;
  AttentionTables tables;
  const MlaEntry* entry = nullptr;
  std::unique_ptr<MlaExecutor> executor;
  bool is_planned = false;
  // Of a plan on the device; undefined after one on the host.
  TensorView qo_indptr;
  MlaPageTable pages;

  /// Begins a plan: half of one must not run.
  MlaProblem Begin(const MlaProblem& given, Backend backend);
  void LogPlan(const MlaProblem& problem, const TensorView& qo_indptr,
               const MlaPageTable& pages) const;
};

MlaProblem BatchMla::Impl::Begin(const MlaProblem& given, Backend backend) {
  MlaProblem p = given;
  p.arch = cuda::ArchOf(workspace.device());
  is_planned = false;
  qo_indptr = {};
  CheckProblem(p);
  const MlaEntry& chosen = Choose<MlaOp>(p, backend);
  if (entry != &chosen) {
    executor = chosen.make();
    entry = &chosen;
  }
  tables.device = workspace.device();
  return p;
}

void BatchMla::Impl::LogPlan(const MlaProblem& p, const TensorView& q,
                             const MlaPageTable& table) const {
  LogCall("batch_mla.plan", {{"object", ObjectText(this)},
                             {"problem", FieldsText("batch_mla", p)},
                             {"qo_indptr", q},
                             {"indptr", table.indptr},
                             {"indices", table.indices},
                             {"kv_len", table.kv_len}});
}

BatchMla::BatchMla(Workspace& workspace) : impl_(std::make_unique<Impl>(workspace)) {}
BatchMla::BatchMla(BatchMla&&) noexcept = default;
BatchMla& BatchMla::operator=(BatchMla&&) noexcept = default;
BatchMla::~BatchMla() = default;

size_t BatchMla::WorkspaceBytes(const MlaProblem& problem, int64_t max_requests, int64_t max_tokens,
                                Backend backend) {
  CheckProblem(problem);
  return Choose<MlaOp>(problem, backend).workspace_bytes(problem, max_requests, max_tokens);
}

Explanation BatchMla::Explain(const MlaProblem& problem) {
  return ExplainOp<MlaOp>(problem, EffectiveBackend(Backend()));
}

void BatchMla::Plan(const MlaProblem& given, const TensorView& qo_indptr, const MlaPageTable& pages,
                    Backend backend, Stream stream) {
  Impl& impl = *impl_;
  if (LogLevel() > 0) [[unlikely]] {
    MlaProblem logged = given;
    logged.arch = cuda::ArchOf(impl.workspace.device());
    impl.LogPlan(logged, qo_indptr, pages);
  }
  const MlaProblem problem = impl.Begin(given, backend);
  ReadPages(pages, problem.page_size, impl.tables);
  CheckTensor("qo_indptr", qo_indptr);
  ReadQueryLengths(qo_indptr, impl.tables);
  impl.executor->Plan(problem, impl.tables, impl.workspace, stream);
  impl.problem = problem;
  impl.is_planned = true;
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("batch_mla.plan", {});
}

void BatchMla::PlanOnDevice(const MlaProblem& given, const TensorView& qo_indptr,
                            const MlaPageTable& pages, int64_t max_tokens, Backend backend,
                            Stream stream) {
  Impl& impl = *impl_;
  FLASHINFER_CHECK(impl.workspace.device().type == DeviceType::kCuda,
                   "workspace: is in host memory, a plan on the device needs a CUDA device");
  const MlaProblem problem = impl.Begin(given, backend);
  DeviceLengths lengths = ReadDevicePageTable({pages.indptr, pages.indices, pages.kv_len},
                                              problem.page_size, impl.tables, "kv_len");
  lengths.kv_len = std::exchange(lengths.last_page_len, nullptr);
  CheckTensor("qo_indptr", qo_indptr);
  ReadDeviceQueryLengths(qo_indptr, max_tokens, impl.tables, lengths);
  impl.executor->PlanOnDevice(problem, impl.tables, lengths, impl.workspace, stream);
  impl.problem = problem;
  impl.qo_indptr = qo_indptr;
  impl.pages = pages;
  impl.is_planned = true;
  Replan(stream);
}

void BatchMla::Replan(Stream stream) const {
  const Impl& impl = *impl_;
  FLASHINFER_CHECK(impl.is_planned && impl.qo_indptr.defined(),
                   "Replan() was called before a successful PlanOnDevice()");
  // Lengths as they are now: to who reads the log, this is a plan of them.
  if (LogLevel() > 0) [[unlikely]]
    impl.LogPlan(impl.problem, impl.qo_indptr, impl.pages);
  impl.executor->Replan(stream);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("batch_mla.plan", {});
}

void BatchMla::Run(const TensorView& q_nope, const TensorView& q_pe, const MlaCache& cache,
                   const TensorView& out, const TensorView& lse, Stream stream) const {
  const Impl& impl = *impl_;
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("batch_mla.run", {{"object", ObjectText(&impl)},
                              {"q_nope", q_nope},
                              {"q_pe", q_pe},
                              {"cache.ckv", cache.ckv},
                              {"cache.kpe", cache.kpe},
                              {"cache.ckv_scale", ValueText(cache.ckv_scale)},
                              {"cache.kpe_scale", ValueText(cache.kpe_scale)},
                              {"cache.ckv_scales", cache.ckv_scales},
                              {"out", out},
                              {"lse", lse}});
  }
  FLASHINFER_CHECK(impl.is_planned, "Run() was called before a successful Plan()");
  const MlaTensors tensors{q_nope, q_pe, cache, out, lse};
  CheckTensors(impl.problem, impl.tables, tensors);
  impl.executor->Run(tensors, stream);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("batch_mla.run", {{"out", out}, {"lse", lse}});
}

}  // namespace flashinfer
