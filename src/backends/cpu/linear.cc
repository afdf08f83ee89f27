// SPDX-License-Identifier: Apache-2.0
// Linear layers on the CPU: memory of packed weights, and how panels are shared among threads.
#include "backends/cpu/linear.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/linear_pack.h"
#include "backends/cpu/page_block.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/thread_pool.h"
#include "core/check.h"
#include "core/convert.h"
#include "flashinfer/cpu.h"

namespace flashinfer::cpu {
namespace {

/// Bytes of activations that stay in the second-level cache while panels go by. Zen 4 (1 MiB),
/// 2026-11: a product of 2048 x 2048 x 2048 in bf16 takes 4 % longer with 512 KiB; asking for the
/// next panel ahead gains nothing more.
constexpr int64_t kActivationBytes = 640 * 1024;
/// Elements below which one thread prepares the activations: a region costs about 2 µs.
constexpr int64_t kSerialElements = 16 * 1024;
/// Bytes of weights that a thread takes at a time when there are few tokens.
constexpr int64_t kGrainBytes = 32 * 1024;

/// Weights up to this size are read by every thread, each for tokens of its own: activations then
/// stay with the core that prepared them. Zen 4 with 2 threads, 2026-11: 512 tokens of 512 x 512 in
/// f32 take 15 % less time by it, of 3072 x 576 in Q4_1 22 %; 256 tokens of 4096 x 4096 in bf16
/// (32 MiB) 5 % more.
constexpr size_t kSharedWeightBytes = size_t{16} << 20;
/// Parts of tokens for a thread: several, for balance, but not too few blocks each.
constexpr int64_t kMaxPartsPerLane = 4;
constexpr int64_t kMinBlocksPerPart = 4;

/// One source matrix within the packed block.
struct Segment {
  WeightFormat format;
  int64_t rows;
  int64_t first_row;   ///< of all rows
  int64_t first_task;  ///< of all tasks
  int64_t panel_bytes;
  int64_t offset;  ///< of the first panel
};

class CpuLinear final : public PackedLinear {
 public:
  CpuLinear(const LinearKernels& kernels, const PackRequest& request)
      : kernels_(kernels), cols_(request.sources[0].cols), block_(Layout(request)) {
    for (size_t i = 0; i < segments_.size(); ++i) {
      const Segment& s = segments_[i];
      const WeightView& source = request.sources[i];
      ParallelFor(Panels(s.rows), 8, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
          PackPanel(source, p * kPanelRows, block_.data() + s.offset + p * s.panel_bytes);
        }
      });
      const PackOptions& options = request.options;
      if (options.packed != nullptr) options.packed(options.context, source);
    }
  }

  size_t size_bytes() const override { return block_.size(); }

  void Run(const LinearParams& params) const override {
    const int64_t block = kernels_.max_block;
    const int64_t at_once =
        std::max(block, kActivationBytes / ActivationBytesPerToken() / block * block);
    const int64_t num_blocks = (params.num_tokens + block - 1) / block;
    const int64_t num_lanes = NumThreads();
    const int64_t parts_per_lane =
        std::min(kMaxPartsPerLane, num_blocks / (num_lanes * kMinBlocksPerPart));
    if (block_.size() > kSharedWeightBytes || parts_per_lane == 0) {
      for (int64_t begin = 0; begin < params.num_tokens; begin += at_once) {
        RunTokens(params, begin, std::min(at_once, params.num_tokens - begin));
      }
      return;
    }
    const int64_t num_parts =
        std::max(num_lanes * parts_per_lane, (params.num_tokens + at_once - 1) / at_once);
    ParallelFor(num_parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part) {
        const int64_t begin = part * num_blocks / num_parts * block;
        const int64_t end = (part + 1) * num_blocks / num_parts * block;
        RunTokens(params, begin, std::min(end, params.num_tokens) - begin);
      }
    });
  }

  void GatherRows(const GatherRowsParams& params) const override {
    ParallelFor(params.num_tokens, std::max<int64_t>(1, kSerialElements / cols_),
                [&](int64_t begin, int64_t end) {
                  std::vector<float> row(static_cast<size_t>(cols_));
                  for (int64_t i = begin; i < end; ++i) GatherRow(params, i, row);
                });
  }

 private:
  static int64_t Panels(int64_t rows) { return (rows + kPanelRows - 1) / kPanelRows; }

  size_t Layout(const PackRequest& request) {
    int64_t offset = 0;
    for (const WeightView& source : request.sources) {
      const int64_t panel_bytes = PanelBytes(source.format, cols_);
      segments_.push_back({source.format, source.rows, num_rows_, num_tasks_, panel_bytes, offset});
      num_rows_ += source.rows;
      num_tasks_ += (Panels(source.rows) + kernels_.panels_per_task - 1) / kernels_.panels_per_task;
      offset += Panels(source.rows) * panel_bytes;
      if (IsQuantized(source.format)) {
        has_tiles_ = true;
      } else if (source.format == WeightFormat::kBF16 && kernels_.uses_pairs) {
        has_pairs_ = true;
      } else {
        has_floats_ = true;
      }
    }
    return static_cast<size_t>(offset);
  }

  const Segment& SegmentOfTask(int64_t task) const {
    size_t i = segments_.size() - 1;
    while (segments_[i].first_task > task) --i;
    return segments_[i];
  }

  const Segment& SegmentOfRow(int64_t row) const {
    size_t i = segments_.size() - 1;
    while (segments_[i].first_row > row) --i;
    return segments_[i];
  }

  int64_t ActivationBytesPerToken() const {
    return (has_tiles_ ? cols_ / kTileCols * kActivationTileBytes : 0) +
           (has_floats_ ? cols_ * 4 : 0) + (has_pairs_ ? (cols_ + 1) / 2 * 4 : 0);
  }

  /// Activations of `num_tokens` tokens in the caller's scratch.
  LinearActivations TakeActivations(int64_t num_tokens) const {
    ScratchCursor cursor(
        ThreadScratch(static_cast<size_t>(num_tokens * ActivationBytesPerToken()) + 256));
    LinearActivations a{.cols = cols_};
    if (has_tiles_) {
      a.tiles = cursor.Take<uint8_t>(num_tokens * (cols_ / kTileCols) * kActivationTileBytes);
    }
    if (has_floats_) a.floats = cursor.Take<float>(num_tokens * cols_);
    if (has_pairs_) a.pairs = cursor.Take<uint32_t>(num_tokens * ((cols_ + 1) / 2));
    return a;
  }

  void RunTokens(const LinearParams& params, int64_t first_token, int64_t num_tokens) const {
    const LinearActivations a = TakeActivations(num_tokens);
    const LinearInput input{static_cast<const char*>(params.x) +
                                first_token * params.x_stride * SizeBytes(params.dtype_x),
                            params.dtype_x, params.x_stride};
    const int64_t block = kernels_.max_block;
    ParallelFor((num_tokens + block - 1) / block,
                std::max<int64_t>(1, kSerialElements / (cols_ * block)),
                [&](int64_t begin, int64_t end) {
                  kernels_.prepare(input, begin * block, std::min(end * block, num_tokens), a);
                });
    // Few tokens: pieces of a few microseconds. Many: a task alone is longer than that.
    const int64_t task_bytes = static_cast<int64_t>(block_.size()) / num_tasks_;
    const int64_t grain = std::max<int64_t>(1, kGrainBytes / (task_bytes * num_tokens));
    ParallelFor(num_tasks_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        RunTask(params, a, first_token, num_tokens, task);
      }
    });
  }

  void RunTask(const LinearParams& params, const LinearActivations& a, int64_t first_token,
               int64_t num_tokens, int64_t task) const {
    const Segment& s = SegmentOfTask(task);
    const int64_t panel = (task - s.first_task) * kernels_.panels_per_task;
    const int64_t row = panel * kPanelRows;
    const int64_t out_row = s.first_row + row;
    const int64_t size = SizeBytes(params.dtype_out);
    kernels_.panel(
        {.activations = &a,
         .panel = block_.data() + s.offset + panel * s.panel_bytes,
         .panel_bytes = s.panel_bytes,
         .format = s.format,
         .dtype_out = params.dtype_out,
         .num_rows =
             static_cast<int>(std::min(kernels_.panels_per_task * kPanelRows, s.rows - row)),
         .num_tokens = num_tokens,
         .out = static_cast<char*>(params.out) + (first_token * params.out_stride + out_row) * size,
         .out_stride = params.out_stride,
         .scale = params.scale,
         .bias = params.bias == nullptr ? nullptr : params.bias + out_row,
         .residual = params.residual == nullptr
                         ? nullptr
                         : static_cast<const char*>(params.residual) +
                               (first_token * params.residual_stride + out_row) * size,
         .residual_stride = params.residual_stride});
  }

  void GatherRow(const GatherRowsParams& params, int64_t i, std::vector<float>& row) const {
    const int64_t id = params.ids[i * params.ids_stride];
    const Segment& s = SegmentOfRow(id);
    const int64_t r = id - s.first_row;
    const bool is_float = params.dtype_out == DType::kF32;
    char* out =
        static_cast<char*>(params.out) + i * params.out_stride * SizeBytes(params.dtype_out);
    float* values = is_float ? reinterpret_cast<float*>(out) : row.data();
    UnpackRow(s.format, block_.data() + s.offset + r / kPanelRows * s.panel_bytes, r % kPanelRows,
              cols_, values);
    if (is_float) return;
    uint16_t* narrow = reinterpret_cast<uint16_t*>(out);
    for (int64_t k = 0; k < cols_; ++k) {
      narrow[k] = params.dtype_out == DType::kF16 ? FromFloat<F16>(values[k]).bits
                                                  : FromFloat<BF16>(values[k]).bits;
    }
  }

  const LinearKernels& kernels_;
  const int64_t cols_;
  std::vector<Segment> segments_;
  int64_t num_rows_ = 0;
  int64_t num_tasks_ = 0;
  bool has_tiles_ = false;
  bool has_floats_ = false;
  bool has_pairs_ = false;
  PageBlock block_;  // after the members that Layout() fills
};

}  // namespace

bool AcceptsLinear(const LinearProblem& problem, std::string* why) {
  if (problem.arch != 0) return Refuse(why, "tensors are on a CUDA device");
  if (problem.cols % BlockSize(problem.format) != 0) {
    return Refuse(why, "cols must be a multiple of the format's block");
  }
  return true;
}

std::unique_ptr<PackedLinear> PackLinearWith(const LinearKernels& kernels,
                                             const PackRequest& request) {
  return std::make_unique<CpuLinear>(kernels, request);
}

}  // namespace flashinfer::cpu
