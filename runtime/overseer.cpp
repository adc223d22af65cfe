#include "runtime/overseer.hpp"

#include <memory>

namespace shmoe::runtime {
namespace {

constexpr std::chrono::seconds kLate{5};

}  // namespace

shmem::Overseer make_overseer(const shmem::Peers& peers, std::vector<Rank> members, std::int32_t cores, Gone gone,
                              Log log) {
  // One cell a core: how often the core's current wait was reported. Each core touches its own.
  auto reported = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(cores));
  // A copy, for its names: the communicator's own Peers moves.
  auto names = std::make_shared<shmem::Peers>(peers);
  return [=, members = std::move(members), gone = std::move(gone)](const shmem::SleepingWait& wait)
             -> std::optional<Error> {
    const std::optional<Rank> writer = names->slots->writer_of(wait.slot, wait.spec.where);
    for (Rank member{0}; member.index() < members.size(); ++member) {
      if (member != writer.value_or(member) || member == names->rank) continue;
      if (const std::optional<std::string> how = gone(member)) {
        const Rank lost = members[member.index()];
        return Error{.code = Errc::peer_lost,
                     .context = fmt::format("rank {} is gone ({}); {}", lost, *how, describe(wait, *names)),
                     .where = lost,
                     .site = wait.site};
      }
    }
    const std::int64_t periods = wait.waited / kLate;
    std::int64_t& last = (*reported)[wait.core.index() % reported->size()];
    if (periods == 0) last = 0;
    if (periods > last) {
      last = periods;
      log.warn("straggler: {}; {} and may still come", describe(wait, *names),
               writer ? fmt::format("rank {}, which writes it, is alive", members[writer->index()])
                      : std::string("its writers are alive"));
    }
    return std::nullopt;
  };
}

}  // namespace shmoe::runtime
