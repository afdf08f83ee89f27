// SPDX-License-Identifier: Apache-2.0
// Linear layers on the CPU: memory of packed weights, and how panels are shared among threads.
#include "backends/cpu/linear.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "backends/cpu/linear_pack.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/thread_pool.h"
#include "core/check.h"
#include "core/convert.h"

namespace flashinfer::cpu {
namespace {

/// Tokens times columns whose activations stay in the second-level cache while panels go by.
constexpr int64_t kTokenBlockElements = 512 * 1024;
/// Elements below which one thread prepares the activations: a region costs about 2 µs.
constexpr int64_t kSerialElements = 16 * 1024;
/// Bytes of weights that a thread takes at a time when there are few tokens.
constexpr int64_t kGrainBytes = 32 * 1024;

/// Zeroed pages of its own, in huge pages where the system has them: packed weights are read front
/// to back once per token.
class PageBlock {
 public:
  explicit PageBlock(size_t bytes) : bytes_(bytes) {
    block_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block_ == MAP_FAILED) {
      throw Error(ErrorKind::kDevice, fmt::format("no memory for {} bytes of weights", bytes));
    }
    madvise(block_, bytes, MADV_HUGEPAGE);
  }
  ~PageBlock() { munmap(block_, bytes_); }
  PageBlock(const PageBlock&) = delete;
  PageBlock& operator=(const PageBlock&) = delete;
  uint8_t* data() const { return static_cast<uint8_t*>(block_); }
  size_t size() const { return bytes_; }

 private:
  void* block_;
  size_t bytes_;
};

/// One source matrix within the packed block.
struct Segment {
  WeightFormat format;
  int64_t rows;
  int64_t first_row;    ///< of all rows
  int64_t first_panel;  ///< of all panels
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
      if (request.packed != nullptr) request.packed(request.context, source);
    }
  }

  size_t size_bytes() const override { return block_.size(); }

  void Run(const LinearParams& params) const override {
    if (params.num_tokens == 0) return;
    const int64_t block_tokens =
        std::min(params.num_tokens, std::max<int64_t>(16, kTokenBlockElements / cols_));
    for (int64_t begin = 0; begin < params.num_tokens; begin += block_tokens) {
      RunBlock(params, begin, std::min(begin + block_tokens, params.num_tokens));
    }
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
      const Segment s{
          source.format, source.rows, num_rows_, num_panels_, PanelBytes(source.format, cols_),
          offset};
      segments_.push_back(s);
      num_rows_ += source.rows;
      num_panels_ += Panels(source.rows);
      offset += Panels(source.rows) * s.panel_bytes;
      has_quantized_ = has_quantized_ || IsQuantized(source.format);
      has_pairs_ = has_pairs_ || source.format == WeightFormat::kBF16;
    }
    has_pairs_ = has_pairs_ && kernels_.make_pairs != nullptr;
    return static_cast<size_t>(offset);
  }

  const Segment& SegmentOfPanel(int64_t panel) const {
    size_t i = segments_.size() - 1;
    while (segments_[i].first_panel > panel) --i;
    return segments_[i];
  }

  const Segment& SegmentOfRow(int64_t row) const {
    size_t i = segments_.size() - 1;
    while (segments_[i].first_row > row) --i;
    return segments_[i];
  }

  /// Activations of `num_tokens` tokens in the caller's scratch. f32 rows are used in place.
  LinearActivations TakeActivations(const LinearParams& params, int64_t num_tokens, void* scratch,
                                    size_t* bytes) const {
    ScratchCursor cursor(scratch);
    LinearActivations a{.cols = cols_};
    if (has_quantized_) {
      a.quants = cursor.Take<int8_t>(num_tokens * cols_);
      a.scales = cursor.Take<float>(num_tokens * cols_ / 32);
      a.sums = cursor.Take<int32_t>(num_tokens * cols_ / 16);
    }
    if (has_pairs_) a.pairs = cursor.Take<uint16_t>(num_tokens * ((cols_ + 1) / 2 * 2));
    if (params.dtype_x != DType::kF32) {
      a.floats = cursor.Take<float>(num_tokens * cols_);
      a.floats_stride = cols_;
    }
    *bytes = cursor.used();
    return a;
  }

  void Prepare(const LinearParams& params, int64_t first_token, int64_t num_tokens,
               LinearActivations& a) const {
    const char* x = static_cast<const char*>(params.x) +
                    first_token * params.x_stride * SizeBytes(params.dtype_x);
    const bool is_float = params.dtype_x == DType::kF32;
    if (is_float) {
      a.floats = reinterpret_cast<const float*>(x);
      a.floats_stride = params.x_stride;
    }
    if (is_float && !has_quantized_ && !has_pairs_) return;
    ParallelFor(num_tokens, std::max<int64_t>(1, kSerialElements / cols_),
                [&](int64_t begin, int64_t end) {
                  for (int64_t t = begin; t < end; ++t) {
                    const float* row = a.floats + t * a.floats_stride;
                    if (!is_float) {
                      kernels_.to_float(x + t * params.x_stride * SizeBytes(params.dtype_x),
                                        params.dtype_x, const_cast<float*>(row), cols_);
                    }
                    if (has_quantized_) kernels_.quantize(row, a, t);
                    if (has_pairs_) kernels_.make_pairs(row, a, t);
                  }
                });
  }

  void RunBlock(const LinearParams& params, int64_t first_token, int64_t end_token) const {
    const int64_t num_tokens = end_token - first_token;
    size_t bytes = 0;
    TakeActivations(params, num_tokens, nullptr, &bytes);
    LinearActivations a = TakeActivations(params, num_tokens, ThreadScratch(bytes), &bytes);
    Prepare(params, first_token, num_tokens, a);
    // Few tokens: pieces of a few microseconds. Many: a panel alone is longer than that.
    const int64_t average_bytes = static_cast<int64_t>(block_.size()) / num_panels_;
    const int64_t grain = std::max<int64_t>(1, kGrainBytes / (average_bytes * num_tokens));
    ParallelFor(num_panels_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        RunPanel(params, a, first_token, num_tokens, panel);
      }
    });
  }

  void RunPanel(const LinearParams& params, const LinearActivations& a, int64_t first_token,
                int64_t num_tokens, int64_t panel) const {
    const Segment& s = SegmentOfPanel(panel);
    const int64_t row = (panel - s.first_panel) * kPanelRows;
    const int64_t out_row = s.first_row + row;
    const int64_t size = SizeBytes(params.dtype_out);
    kernels_.panel(
        {.activations = &a,
         .panel = block_.data() + s.offset + (panel - s.first_panel) * s.panel_bytes,
         .format = s.format,
         .dtype_out = params.dtype_out,
         .num_rows = static_cast<int>(std::min(kPanelRows, s.rows - row)),
         .token_begin = 0,
         .token_end = num_tokens,
         .out = static_cast<char*>(params.out) + (first_token * params.out_stride + out_row) * size,
         .out_stride = params.out_stride,
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
  int64_t num_panels_ = 0;
  bool has_quantized_ = false;
  bool has_pairs_ = false;
  PageBlock block_;  // after the members that Layout() fills
};

}  // namespace

bool AcceptsLinear(const LinearProblem& problem, std::string* why) {
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
