#pragma once
// One look at a running job, for people and for programs.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/diagnosis/assessment.hpp"
#include "runtime/diagnosis/job_view.hpp"
#include "runtime/running_jobs.hpp"

namespace shmoe::apps {

/// What is shown beside the cores.
struct InspectChoice {
  std::string slots;         // of this family; empty: none
  std::uint64_t events = 0;  // the last ones of the job
};

/// An event and who it is of.
struct PlacedEvent {
  runtime::CommunicatorId communicator;
  Rank rank;
  Core core;
  shmem::Event event;
};

struct Inspection {
  const runtime::JobView* job = nullptr;
  InspectChoice choice;
  std::unique_ptr<runtime::JobLook> look;
  std::vector<runtime::CommunicatorLook> communicators;
  std::vector<PlacedEvent> events;  // oldest first
};

/// Errors:  as JobView::communicators; invalid_argument where no slot family has the chosen name.
Result<Inspection> inspect(runtime::JobView& job, const InspectChoice& choice);

std::string to_text(const Inspection& inspection);
nlohmann::ordered_json to_json(const Inspection& inspection);
std::string to_text(const std::vector<runtime::RunningJob>& jobs);
nlohmann::ordered_json to_json(const std::vector<runtime::RunningJob>& jobs);

/// "barrier[1] from rank 0 of rank 1 to be >= 0x200, sees 0x100"
std::string wait_text(const runtime::CommunicatorLook& look, const runtime::WaitSight& wait);
std::string_view name_of(shmem::Life life);
shmem::Life life_of(const shmem::WaitRecord& record);

}  // namespace shmoe::apps
