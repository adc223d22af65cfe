// Prints what the operators leave behind for the worked example, in the words of the script beside the specification,
// so that the two texts can be compared line by line.

#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ops/ep/reference.hpp"
#include "tests/ops/example.hpp"
#include "tests/ops/example_run.hpp"

using namespace shmoe;

namespace {

constexpr std::size_t kRanks = 2;
constexpr std::size_t kExperts = 4;
constexpr std::size_t kTopk = 2;
constexpr std::size_t kTokens = 3;

std::string number(float value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string numbers(DType dtype, std::span<const std::byte> bytes, std::size_t row) {
  std::vector<std::string> texts;
  for (std::int64_t j = 0; j < test::kExampleHidden; ++j) {
    texts.push_back(
        number(ops::reference::load(dtype, bytes, static_cast<std::int64_t>(row) * test::kExampleHidden + j)));
  }
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

template <class T>
std::string list(const std::vector<T>& values, std::size_t first, std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return fmt::format("[{}]", fmt::join(begin, begin + static_cast<std::ptrdiff_t>(count), ", "));
}

template <class T>
std::string table(const std::vector<T>& values, std::size_t rows, std::size_t columns) {
  std::vector<std::string> lines;
  for (std::size_t row = 0; row < rows; ++row) lines.push_back(list(values, row * columns, columns));
  return fmt::format("[{}]", fmt::join(lines, ", "));
}

/// After phase 1 a row holds the pairs of the cores before it: what the row above holds in the end.
std::vector<std::int32_t> rows_after_phase1(const ops::LayoutTables& layout) {
  std::vector<std::int32_t> rows(kExperts, 0);
  rows.insert(rows.end(), layout.notify_send_data.begin(),
              layout.notify_send_data.begin() + static_cast<std::ptrdiff_t>((kTokens - 1) * kExperts));
  return rows;
}

void print_layout(const std::vector<test::ExampleRank>& ranks) {
  fmt::print("== layout ==\n");
  for (std::size_t r = 0; r < kRanks; ++r) {
    const ops::LayoutTables& layout = ranks[r].layout;
    fmt::print("rank{}: num_tokens_per_expert={} num_tokens_per_rank={} is_token_in_rank={}\n", r,
               list(ranks[r].num_tokens_per_expert, 0, kExperts), list(layout.num_tokens_per_rank, 0, kRanks),
               table(layout.is_token_in_rank, kTokens, kRanks));
    fmt::print("       per-core exclusive rows after phase1={}  after phase2={}\n",
               table(rows_after_phase1(layout), kTokens, kExperts), table(layout.notify_send_data, kTokens, kExperts));
    fmt::print("       send_token_idx={}\n", table(layout.send_token_idx, kTokens, kTopk));
  }
}

void print_notify(const std::vector<test::ExampleRank>& ranks) {
  const ops::NotifyTables& notify = ranks[0].notify;
  fmt::print("== notify ==\n");
  fmt::print("recv_data (R x E) = {}\n", table(notify.recv_data, kRanks, kExperts));
  fmt::print("put_offset[e*R+src] = {}\n", list(notify.put_offset, 0, kExperts * kRanks));
  fmt::print("rows received per rank = [{}, {}] -> total_recv_tokens = {}  (same value on every rank)\n",
             notify.recv_rows, ranks[1].notify.recv_rows, notify.total_recv_tokens);
  fmt::print("max_bs = {}\n", notify.max_bs);
  fmt::print("recv_tokens_per_expert = [{}, {}]\n", list(notify.recv_tokens_per_expert, 0, 2),
             list(ranks[1].notify.recv_tokens_per_expert, 0, 2));
}

void print_dispatch(const std::vector<test::ExampleRank>& ranks, const ops::reference::Answer& answer) {
  fmt::print("== dispatch: receive buffers (row: expert, source rank, token, k, payload) ==\n");
  for (std::size_t r = 0; r < kRanks; ++r) {
    const std::vector<std::byte>& received = ranks[r].received;
    const std::size_t row_bytes = static_cast<std::size_t>(test::kExampleHidden) * 2;
    for (std::size_t row = 0; row * row_bytes < received.size(); ++row) {
      if (received[row * row_bytes] == std::byte{0xA5}) {
        fmt::print("rank{} row{}: (not written)\n", r, row);
        continue;
      }
      const ops::reference::Origin& from = answer.rows[r].at(row);
      fmt::print("rank{} row{}: e{} src{} t{} k{} x={}\n", r, row, from.expert, from.source, from.token, from.k,
                 numbers(DType::bf16, received, row));
    }
  }
}

void print_combine(const std::vector<test::ExampleRank>& bf16, const std::vector<test::ExampleRank>& fp32) {
  const ops::reference::Problem problem = test::example_problem();
  fmt::print("== expert compute (y = x*(e+1)) and combine ==\n");
  for (std::size_t r = 0; r < kRanks; ++r) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      std::vector<std::string> reads;
      for (std::size_t pair = t * kTopk; pair < (t + 1) * kTopk; ++pair) {
        const auto expert = static_cast<std::size_t>(problem.ranks[r].topk_idx[pair]);
        reads.push_back(
            fmt::format("({}, {})", problem.owner[expert],
                        bf16[r].notify.put_offset[expert * kRanks + r] + bf16[r].layout.send_token_idx[pair]));
      }
      fmt::print("rank{} t{}: reads (rank,row)=[{}] fp32 acc={} -> bf16 {}\n", r, t, fmt::join(reads, ", "),
                 numbers(DType::fp32, fp32[r].combined, t), numbers(DType::bf16, bf16[r].combined, t));
    }
  }
}

void print_low_latency(const std::vector<test::LowLatencyExampleRank>& counts,
                       const std::vector<test::LowLatencyExampleRank>& cumulative) {
  fmt::print("== low latency ==\n");
  fmt::print("ep_recv_count (inclusive prefix, R*E) = [{}]\n", fmt::join(counts[0].tables.ep_recv_count, ", "));
  for (std::size_t r = 0; r < kRanks; ++r) {
    const ops::LowLatencyTables& tables = counts[r].tables;
    const Rank me{static_cast<std::int32_t>(r)};
    std::vector<std::int64_t> rows;
    for (std::int64_t pair = 0; pair < std::ssize(tables.expand_idx); ++pair) {
      rows.push_back(tables.place_of(pair, me)->row);
    }
    fmt::print("rank{}: expand_idx=[{}] bases=[{}] rows=[{}] expert_token_nums count=[{}] cumsum=[{}]\n", r,
               fmt::join(tables.expand_idx, ", "), fmt::join(test::low_latency_bases(tables, me), ", "),
               fmt::join(rows, ", "), fmt::join(tables.expert_token_nums, ", "),
               fmt::join(cumulative[r].tables.expert_token_nums, ", "));
  }
}

}  // namespace

int main() {
  const auto bf16 = test::run_example(DType::bf16);
  const auto fp32 = test::run_example(DType::fp32);
  for (const auto* ranks : {&bf16, &fp32}) {
    if (*ranks) continue;
    fmt::print(stderr, "{}\n", to_string(ranks->error()));
    return 1;
  }
  const auto counts = test::run_low_latency_example(kSafe, ops::GroupList::counts);
  const auto cumulative = test::run_low_latency_example(kSafe, ops::GroupList::cumulative);
  for (const auto* ranks : {&counts, &cumulative}) {
    if (*ranks) continue;
    fmt::print(stderr, "{}\n", to_string(ranks->error()));
    return 1;
  }
  print_layout(*bf16);
  print_notify(*bf16);
  print_dispatch(*bf16, ops::reference::solve(test::example_problem()));
  print_combine(*bf16, *fp32);
  print_low_latency(*counts, *cumulative);
  return 0;
}
