// One rank of a job of processes in an EP and a TP domain, with the heap and the window that the environment says.
// usage: domains_procs EP TP ROUNDS

#include <cstdio>
#include <string>
#include <vector>

#include "tests/ops/domains.hpp"

using namespace shmoe;

namespace {

Result<std::string> run(const std::vector<std::string>& words) {
  const Result<runtime::Config> config = runtime::Config::load();
  if (!config) return config.error();
  const Result<std::unique_ptr<runtime::World>> world = runtime::World::create(test::domains_config(*config));
  if (!world) return world.error();
  constexpr std::uint64_t kSeed = 20260722;
  const auto domains = test::ep_and_tp(std::stoi(words[0]), std::stoi(words[1]));
  Result<std::string> found = run_domains(**world, domains, kSeed, std::stoi(words[2]));
  if (!found) {
    (*world)->abort(found.error());
    return found;
  }
  if (Result<void> ended = (*world)->finalize(); !ended) return std::move(ended).error();
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() != 3) return 2;
  const Result<std::string> found = run(words);
  std::puts(!found ? to_string(found.error()).c_str() : found->empty() ? "exact" : found->c_str());
  return found && found->empty() ? 0 : 1;
}
