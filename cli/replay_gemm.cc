// SPDX-License-Identifier: Apache-2.0
// How dumped calls of weights and matrix products are made again.
#include "replay_ops.h"

#include <fmt/format.h>

#include "flashinfer/flashinfer.h"

namespace flashinfer::cli {
namespace {

using Call = std::shared_ptr<const DumpedCall>;

WeightFormat FormatOf(const DumpedCall& c, const std::string& argument) {
  for (int i = 0; i <= static_cast<int>(WeightFormat::kMXFP4); ++i) {
    const auto format = static_cast<WeightFormat>(i);
    if (Name(format) == c.Text(argument)) return format;
  }
  throw Error(ErrorKind::kInvalidArgument, fmt::format("{}: {}: '{}' is no weight format", c.name(),
                                                       argument, c.Text(argument)));
}

void ReplayPackWeight(const Call& c, ReplayObjects& objects) {
  std::vector<WeightView> sources;
  for (int64_t i = 0; i < c->Int("num_sources"); ++i) {
    const std::string name = fmt::format("sources.{}", i);
    const TensorView bytes = c->Tensor(name);
    const WeightFormat format = FormatOf(*c, name + ".format");
    sources.push_back({bytes.data(), format, bytes.shape(0),
                       bytes.shape(1) / BlockBytes(format) * BlockSize(format)});
  }
  objects.Put(c, std::make_shared<PackedWeight>(sources));
}

void ReplayGatherRows(const Call& c, ReplayObjects& objects) {
  objects.Get<PackedWeight>(*c, "object").GatherRows(c->Tensor("ids"), c->Tensor("out"));
}

void ReplayLinear(const Call& c, ReplayObjects& objects) {
  Linear(c->Tensor("x"), objects.Get<PackedWeight>(*c, "weight"), c->Tensor("out"),
         {.bias = c->Tensor("bias"), .residual = c->Tensor("residual")});
}

void ReplayGemm(const Call& c, ReplayObjects&) {
  Gemm(c->Tensor("a"), c->Tensor("b"), c->Tensor("out"),
       {.a_scale = c->Float("a_scale"),
        .b_scale = c->Float("b_scale"),
        .a_scale_tensor = c->Tensor("a_scale_tensor"),
        .b_scale_tensor = c->Tensor("b_scale_tensor")});
}

void ReplaySegmentGemm(const Call& c, ReplayObjects&) {
  SegmentGemm(c->Tensor("x"), c->Tensor("weights"), c->Tensor("indptr"), c->Tensor("out"),
              {.weight_indices = c->Tensor("weight_indices")});
}

GroupedGemmOptions GroupedOptions(const Call& c) {
  return {.scales = {.a = c->Tensor("a_scales"),
                     .b = c->Tensor("b_scales"),
                     .rows_per_scale = static_cast<int32_t>(c->Int("rows_per_scale")),
                     .n_per_scale = static_cast<int32_t>(c->Int("n_per_scale")),
                     .k_per_scale = static_cast<int32_t>(c->Int("k_per_scale"))}};
}

void ReplayGroupedGemm(const Call& c, ReplayObjects&) {
  GroupedGemm(c->Tensor("a"), c->Tensor("b"), c->Tensor("indptr"), c->Tensor("out"),
              GroupedOptions(c));
}

void ReplayGroupedGemmByRow(const Call& c, ReplayObjects&) {
  GroupedGemmByRow(c->Tensor("a"), c->Tensor("b"), c->Tensor("row_groups"), c->Tensor("out"),
                   GroupedOptions(c));
}

void ReplayGroupedGemmMasked(const Call& c, ReplayObjects&) {
  GroupedGemmMasked(c->Tensor("a"), c->Tensor("b"), c->Tensor("num_rows"), c->Tensor("out"),
                    GroupedOptions(c));
}

constexpr ReplayRow kRows[] = {
    {"gather_rows", ReplayGatherRows},
    {"gemm", ReplayGemm},
    {"grouped_gemm", ReplayGroupedGemm},
    {"grouped_gemm_by_row", ReplayGroupedGemmByRow},
    {"grouped_gemm_masked", ReplayGroupedGemmMasked},
    {"linear", ReplayLinear},
    {"pack_weight", ReplayPackWeight},
    {"segment_gemm", ReplaySegmentGemm},
};

}  // namespace

std::span<const ReplayRow> GemmReplayRows() { return kRows; }

}  // namespace flashinfer::cli
