#include "runtime/telling.hpp"

#include <algorithm>

#include "bootstrap/launch.hpp"

namespace shmoe::runtime {
namespace {

/// Nothing is nearer.
constexpr std::uint64_t kProven = 6;

/// How near an error is to what went wrong first.
std::uint64_t verdict_on(const Error& error, Rank self) {
  switch (error.code) {
    case Errc::deadlock: return error.where == self ? kProven : 1;  // the rank that has the proof
    case Errc::aborted: return error.where == self ? 5 : 1;         // the rank that threw
    case Errc::deadline: return error.where ? 4 : 2;  // where: somebody overran this wait, the others only waited
    case Errc::peer_lost: return 3;
    default: return 5;
  }
}

void wait_until(const std::function<bool()>& condition) { shmem::wait_until(condition, kTellingLimit); }

Rank rank_of_this_process() {
  const auto launch = bootstrap::detect_launch(bootstrap::process_environment());
  return launch ? launch->rank : Rank{0};
}

void tell_on(Rank teller, const Tell& tell) {
  if (rank_of_this_process() != teller) shmem::wait_until([] { return false; }, kAloneLimit);
  tell();
}

/// One rank has found it, whether the others know it from that rank or still wait for it.
bool found_by_one(const Error& error) {
  switch (error.code) {
    case Errc::peer_lost:
    case Errc::aborted:
    case Errc::deadline:
    case Errc::mismatch: return false;
    default: return true;
  }
}

}  // namespace

void tell_once(const Witnesses& witnesses, const Error& error, const Tell& tell) {
  const Rank self = witnesses.self;
  const auto& words = witnesses.words;
  const auto& gone = witnesses.gone;
  const std::uint64_t verdict = verdict_on(error, self);
  words[self.index()]->leave(verdict);
  std::size_t heard = 0;
  // Who is busy elsewhere holds up no proof, and nobody who has been told.
  wait_until([&] {
    if (verdict == kProven || words.front()->teller()) return true;
    while (heard < words.size() && (words[heard]->verdict() != 0 || gone(Rank{heard}))) ++heard;
    return heard == words.size();
  });
  const auto nearest = std::ranges::max_element(words, {}, [](const auto* rank) { return rank->verdict(); });
  const Rank speaker{nearest - words.begin()};
  shmem::LastWords& job = *words.front();
  if (speaker != self) wait_until([&] { return job.teller() || gone(speaker); });
  if (job.claim(self)) return tell();
  wait_until([&] { return gone(*job.teller()).has_value(); });
}

void tell_alike(const Tell& tell) { tell_on(Rank{0}, tell); }

void tell_failed_start(const Error& error, const Tell& tell) {
  if (found_by_one(error)) return tell_on(error.where.value_or(rank_of_this_process()), tell);
  const bool first_is_lost = error.code == Errc::peer_lost || error.code == Errc::deadline;
  tell_on(Rank{first_is_lost && error.where == Rank{0} ? 1 : 0}, tell);
}

}  // namespace shmoe::runtime
