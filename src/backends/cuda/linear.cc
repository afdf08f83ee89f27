// SPDX-License-Identifier: Apache-2.0
// Linear layers on CUDA devices: weights in device memory, the spec of a call, its launches.
#include "backends/cuda/linear.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "backends/cpu/thread_pool.h"
#include "backends/cuda/linear_pack.h"
#include "backends/cuda/problem.h"
#include "cuda/launch.h"
#include "cuda/memory.h"
#include "jit/store.h"
#include "kernels/linear/gather_rows_spec.h"
#include "kernels/linear/linear_spec.h"

namespace flashinfer::cuda {
namespace {

/// Bytes that are repacked at a time.
constexpr int64_t kStagingBytes = int64_t{16} << 20;

/// Tokens up to which CUDA cores are faster than tensor cores.
constexpr int64_t kMostSimtTokens = 4;

/// Neighbouring sources of one format, as one matrix.
struct Segment {
  WeightFormat format;
  int64_t rows;
  int64_t first_row;
  int64_t offset;  ///< in the block
};

kernels::WeightPlanes PlanesAt(const char* base, const kernels::WeightPlaneOffsets& offsets) {
  return {base + offsets.plane[0], base + offsets.plane[1], base + offsets.plane[2],
          base + offsets.plane[3]};
}

class CudaLinear final : public PackedLinear {
 public:
  explicit CudaLinear(const PackRequest& request)
      : cols_(request.sources[0].cols),
        device_(request.options.device),
        block_(request.options.device) {
    const int64_t bytes = Layout(request.sources);
    base_ = static_cast<char*>(block_.Reserve(static_cast<size_t>(bytes)));
    // What lies between planes is read beside the last rows.
    FillBytes(base_, 0, static_cast<size_t>(bytes), {device_});
    int64_t row = 0;
    for (const WeightView& source : request.sources) {
      Upload(source, row);
      row += source.rows;
      const PackOptions& options = request.options;
      if (options.packed != nullptr) options.packed(options.context, source);
    }
  }

  size_t size_bytes() const override { return block_.capacity_bytes(); }

  void Run(const LinearParams& params) const override {
    if (params.num_tokens == 0) return;
    for (const Segment& segment : segments_) Multiply(params, segment);
  }

  void GatherRows(const GatherRowsParams& p) const override {
    if (p.num_tokens == 0) return;
    VectorSize size(4);
    size.Pointer(p.out, p.dtype_out).Count(p.out_stride).Count(cols_);
    for (const Segment& s : segments_) {
      const kernels::GatherRowsSpec spec{
          .format = s.format, .dtype_out = p.dtype_out, .vector_size = size.value() == 4 ? 4 : 1};
      const kernels::GatherRowsParams params{.ids = p.ids,
                                             .out = p.out,
                                             .weight = PlanesOf(s),
                                             .ids_stride = p.ids_stride,
                                             .out_stride = p.out_stride,
                                             .first_row = static_cast<int32_t>(s.first_row),
                                             .num_rows = static_cast<int32_t>(s.rows),
                                             .end_row = static_cast<int32_t>(num_rows_),
                                             .cols = static_cast<int32_t>(cols_)};
      Launch(jit::GetKernel(spec, device_), {.grid_x = p.num_tokens, .overlaps_previous = true},
             params, p.stream);
    }
  }

 private:
  /// Bytes of all planes.
  int64_t Layout(std::span<const WeightView> sources) {
    for (const WeightView& source : sources) {
      if (segments_.empty() || segments_.back().format != source.format) {
        segments_.push_back({source.format, 0, num_rows_, 0});
      }
      segments_.back().rows += source.rows;
      num_rows_ += source.rows;
    }
    int64_t offset = 0;
    for (Segment& s : segments_) {
      s.offset = offset;
      offset += kernels::PlaneOffsets(s.format, s.rows, cols_).end;
    }
    return offset;
  }

  kernels::WeightPlanes PlanesOf(const Segment& s) const {
    return PlanesAt(base_ + s.offset, kernels::PlaneOffsets(s.format, s.rows, cols_));
  }

  /// `first_row` is the source's, of all rows.
  void Upload(const WeightView& source, int64_t first_row) {
    size_t i = 0;
    while (first_row >= segments_[i].first_row + segments_[i].rows) ++i;
    const Segment& s = segments_[i];
    const auto to = kernels::PlaneOffsets(s.format, s.rows, cols_);
    const int64_t row_bytes = kernels::PlaneOffsets(s.format, 1, cols_).end;
    const int64_t at_once = std::max<int64_t>(1, kStagingBytes / row_bytes);
    std::vector<uint8_t> staging;
    for (int64_t begin = 0; begin < source.rows; begin += at_once) {
      const int64_t num_rows = std::min(at_once, source.rows - begin);
      const auto from = kernels::PlaneOffsets(s.format, num_rows, cols_);
      staging.resize(static_cast<size_t>(from.end));
      cpu::ParallelFor(num_rows, 16, [&](int64_t row, int64_t end) {
        std::array<uint8_t*, kernels::kNumWeightPlanes> planes{};
        for (int32_t p = 0; p < kernels::kNumWeightPlanes; ++p) {
          planes[static_cast<size_t>(p)] =
              staging.data() + from.plane[p] + kernels::PlaneBytes(s.format, p, row, cols_);
        }
        PackPlanes(source, begin + row, begin + end, planes);
      });
      for (int32_t p = 0; p < kernels::kNumWeightPlanes; ++p) {
        const int64_t bytes = kernels::PlaneBytes(s.format, p, num_rows, cols_);
        if (bytes == 0) continue;
        CopyToDevice(base_ + s.offset + to.plane[p] +
                         kernels::PlaneBytes(s.format, p, first_row - s.first_row + begin, cols_),
                     staging.data() + from.plane[p], static_cast<size_t>(bytes), {device_});
      }
      Synchronize({device_});
    }
  }

  void Multiply(const LinearParams& p, const Segment& s) const {
    VectorSize size(8);
    size.Pointer(p.x, p.dtype_x).Count(p.x_stride);
    const int64_t element = SizeBytes(p.dtype_out);
    const kernels::LinearParams params{
        .x = p.x,
        .out = static_cast<char*>(p.out) + s.first_row * element,
        .bias = p.bias == nullptr ? nullptr : p.bias + s.first_row,
        .residual = p.residual == nullptr
                        ? nullptr
                        : static_cast<const char*>(p.residual) + s.first_row * element,
        .weight = PlanesOf(s),
        .x_stride = p.x_stride,
        .out_stride = p.out_stride,
        .residual_stride = p.residual_stride,
        .num_rows = static_cast<int32_t>(s.rows),
        .num_tokens = static_cast<int32_t>(p.num_tokens),
        .cols = static_cast<int32_t>(cols_),
        .scale = p.scale};
    const DeviceProperties& device = Properties(device_);
    const kernels::LinearShape shape{.num_rows = s.rows,
                                     .num_tokens = p.num_tokens,
                                     .num_sms = device.num_sms,
                                     .smem_bytes = device.smem_per_block_bytes};
    const int32_t vector_size = size.value() == 8 ? 8 : 1;
    if (kernels::IsPlain(s.format) || p.num_tokens <= kMostSimtTokens) {
      const auto spec = kernels::MakeLinearSimtSpec({.format = s.format,
                                                     .dtype_x = p.dtype_x,
                                                     .dtype_out = p.dtype_out,
                                                     .cols = static_cast<int32_t>(cols_),
                                                     .vector_size = vector_size},
                                                    shape);
      const Kernel& kernel = jit::GetKernel(spec, device_);
      const int64_t resident = int64_t{device.num_sms} * std::max(1, kernel.blocks_per_sm);
      LaunchBlocks(spec, resident, params, p.stream);
    } else {
      const auto spec = kernels::MakeLinearMmaSpec({.format = s.format,
                                                    .dtype_x = p.dtype_x,
                                                    .dtype_out = p.dtype_out,
                                                    .vector_size = vector_size},
                                                   shape);
      LaunchBlocks(spec, std::numeric_limits<int64_t>::max(), params, p.stream);
    }
  }

  /// At most `max_row_blocks` blocks share the rows.
  template <class Spec>
  void LaunchBlocks(const Spec& spec, int64_t max_row_blocks, const kernels::LinearParams& params,
                    Stream stream) const {
    const int64_t rows_per_block = kernels::LinearRowsPerBlock(spec);
    Launch(jit::GetKernel(spec, device_),
           {.grid_x =
                std::min((params.num_rows + rows_per_block - 1) / rows_per_block, max_row_blocks),
            .grid_y = (int64_t{params.num_tokens} + spec.tokens_tile - 1) / spec.tokens_tile,
            .overlaps_previous = true},
           params, stream);
  }

  const int64_t cols_;
  const Device device_;
  Workspace block_;
  char* base_ = nullptr;
  int64_t num_rows_ = 0;
  std::vector<Segment> segments_;
};

/// Shared memory of a block that every device of an architecture has.
int64_t SmemOfArch(int32_t arch) {
  if (arch < 80) return int64_t{64} << 10;
  return int64_t{arch == 86 || arch == 89 || arch >= 120 ? 99 : arch < 90 ? 163 : 227} << 10;
}

}  // namespace

bool AcceptsLinear(const LinearProblem& problem, std::string* why) {
  if (!IsOnArch(problem.arch, kernels::LinearSimtSpec::kMinArch, why)) return false;
  if (problem.cols % BlockSize(problem.format) != 0) {
    return Refuse(why, "cols must be a multiple of the format's block");
  }
  if (problem.rows > std::numeric_limits<int32_t>::max() / 2) {
    return Refuse(why, "rows must be below 2^30");
  }
  constexpr int64_t kMostUnits = std::numeric_limits<uint32_t>::max();
  if (problem.rows * kernels::UnitsOf(problem.format, problem.cols) > kMostUnits) {
    return Refuse(why, "rows * cols must be below 2^32 units of the format");
  }
  if (kernels::ActivationBytes(problem.format, problem.cols) > SmemOfArch(problem.arch)) {
    return Refuse(why, "a token's activations must fit into shared memory");
  }
  return true;
}

std::unique_ptr<PackedLinear> PackLinear(const PackRequest& request) {
  return std::make_unique<CudaLinear>(request);
}

}  // namespace flashinfer::cuda
