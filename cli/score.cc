// SPDX-License-Identifier: Apache-2.0
// `flashinfer score` and `flashinfer tokenize`: a text's likelihood and its token ids.
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "engine/engine.h"
#include "engine/tokenizer.h"
#include "engine/vocabulary.h"
#include "session.h"

namespace flashinfer::cli {

using engine::SpecialTokens;

int Score(const ScoreOptions& options) {
  const std::string text = ReadTextFile(options.text_file);
  engine::CheckUtf8(options.text_file, text);
  Session session(options.model);
  const std::vector<int32_t> ids = session.tokenizer().Encode(text, SpecialTokens::kPlain);
  const double mean_nll = session.StartEngine().MeanNll(ids);
  if (options.json) {
    const nlohmann::ordered_json out{
        {"num_tokens", ids.size()}, {"mean_nll", mean_nll}, {"perplexity", std::exp(mean_nll)}};
    fmt::print("{}\n", out.dump(2));
  } else {
    fmt::print("tokens      {}\nmean NLL    {:.5f}\nperplexity  {:.4f}\n", ids.size(), mean_nll,
               std::exp(mean_nll));
  }
  return 0;
}

int Tokenize(const TokenizeOptions& options) {
  engine::CheckUtf8("text", options.text);
  const engine::Checkpoint checkpoint = engine::Checkpoint::Open(options.model);
  const std::vector<int32_t> ids =
      engine::LoadTokenizer(checkpoint)
          ->Encode(options.text,
                   options.parse_special ? SpecialTokens::kParse : SpecialTokens::kPlain);
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"ids", ids}}.dump());
  } else {
    fmt::print("{}\n", fmt::join(ids, " "));
  }
  return 0;
}

}  // namespace flashinfer::cli
