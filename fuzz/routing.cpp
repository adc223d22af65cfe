// Recorded routing, as `shmoe moe --routing FILE` reads it.

#include "fuzz/target.hpp"

#include <sstream>

#include <fmt/ranges.h>

#include "apps/shmoe/routing_file.hpp"

namespace shmoe::fuzz {
namespace {

using apps::Batch;
using apps::RoutingFile;
using apps::RoutingRules;

Result<RoutingFile> read(const std::string& text, const RoutingRules& rules) {
  std::istringstream in(text);
  return apps::read_routing(in, "routes", rules);
}

template <class Number>
std::string rows_of(const std::vector<Number>& numbers, std::size_t columns) {
  std::vector<std::string> rows;
  for (std::size_t at = 0; at < numbers.size(); at += columns)
    rows.push_back(fmt::format("[{}]", fmt::join(std::span(numbers).subspan(at, columns), ",")));
  return fmt::format("[{}]", fmt::join(rows, ","));
}

std::string written(const RoutingFile& file) {
  const auto columns = static_cast<std::size_t>(file.topk);
  std::string text;
  for (const Batch& batch : file.batches) {
    text += "{\"topk_ids\": " + rows_of(batch.topk_ids, columns);
    if (!batch.weights.empty()) text += ", \"topk_weights\": " + rows_of(batch.weights, columns);
    text += "}\n";
  }
  return text;
}

bool same(const RoutingFile& a, const RoutingFile& b) {
  const auto equal = [](const Batch& x, const Batch& y) {
    return x.tokens == y.tokens && x.topk_ids == y.topk_ids && x.weights == y.weights;
  };
  return a.topk == b.topk && std::ranges::equal(a.batches, b.batches, equal);
}

bool is_whole(const Batch& batch, std::int32_t topk, std::int32_t experts) {
  const auto pairs = static_cast<std::size_t>(batch.tokens) * static_cast<std::size_t>(topk);
  return batch.topk_ids.size() == pairs && (batch.weights.empty() || batch.weights.size() == pairs) &&
         std::ranges::all_of(batch.topk_ids, [=](std::int64_t id) { return id >= -1 && id < experts; });
}

void check(const std::string& text, const RoutingRules& rules) {
  const auto file = read(text, rules);
  if (!file) return is_told(file.error(), "routes:");
  holds(file->topk > 0 && !file->batches.empty(), "a routing has a batch and a top k", text);
  for (const Batch& batch : file->batches)
    holds(is_whole(batch, file->topk, rules.experts), "a batch has all its ids and weights", text);
  const std::string again = written(*file);
  const auto reread = read(again, rules);
  holds(reread && same(*reread, *file), "routing is parsed again to the same", again);
}

}  // namespace
}  // namespace shmoe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(shmoe::fuzz::text_of(data, size));
  shmoe::fuzz::check(text, {});
  shmoe::fuzz::check(text, {.topk = 2, .topk_given = true, .experts = 8});
  return 0;
}
