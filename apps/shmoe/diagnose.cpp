// shmoe diagnose: asks for a proof that a running job can never go on.

#include <algorithm>
#include <memory>
#include <optional>

#include "apps/shmoe/command.hpp"
#include "apps/shmoe/inspection.hpp"
#include "runtime/diagnosis/outside_proof.hpp"
#include "runtime/diagnosis/verdict_json.hpp"

namespace shmoe::apps {
namespace {

constexpr const char* kDescription =
    "Asks the cores of a running job for a proof, now: can anybody still go on?\n\n"
    "  shmoe diagnose shmoe_4872_643f4fae\n\n"
    "Every sleeping core answers within a tenth of a second whether it still waits in vain. Where all who could end "
    "the\n"
    "waits wait themselves, the verdict is proven: it names every wait, in the words in which the job itself says it, "
    "and\n"
    "the exit code is 86. Otherwise it says which rank the others wait for, and the exit code is 0. A job asks the "
    "same\n"
    "of itself all the time, so a deadlock mostly is over, with its report, before anybody types this command; a rank\n"
    "that is slow, stopped or stuck outside of shmoe is what this command tells apart from one.";

struct DiagnoseOptions {
  std::string job;
  bool json = false;
};

struct Finding {
  runtime::CommunicatorId communicator;
  bool deadlock = false;
  std::string text;
  std::string condition;  // of runtime::Condition, or the kind of the verdict
  std::optional<runtime::Verdict> verdict;
};

/// What the ranks have proven themselves counts, too.
Finding find(const runtime::CommunicatorLook& look) {
  const auto reason = look.view->aborted();
  const runtime::Assessment assessment = look.assess();
  return {look.view->id(), reason && reason->code == Errc::deadlock, assessment.text,
          std::string(name_of(assessment.condition)), std::nullopt};
}

std::optional<runtime::Proof> prove(runtime::JobView& job) {
  const std::int32_t ranks = job.shape().ranks;
  const auto views = [&job]() -> runtime::Prover::Views {
    auto found = job.communicators();
    return found ? *std::move(found) : runtime::Prover::Views{};
  };
  const auto gone = [&job](Rank rank) { return job.state_of(rank).ended(); };
  return runtime::prove_from_outside({.self = runtime::kOutside, .ranks = ranks, .views = views, .gone = gone},
                                     runtime::proof_limit(ranks));
}

/// A proof stands at those communicators whose ranks it is about.
Result<std::vector<Finding>> find_all(runtime::JobView& job) {
  const auto proof = prove(job);
  auto look = runtime::JobLook::take(job);
  if (!look) return std::move(look).error();
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < (*look)->views().size(); ++i) {
    const runtime::CommunicatorLook at(**look, i);
    Finding finding = find(at);
    if (proof && !at.stuck().empty() && !finding.deadlock)
      finding = {at.view->id(), true, to_string(proof->verdict), std::string(name_of(proof->verdict.kind)),
                 proof->verdict};
    findings.push_back(std::move(finding));
  }
  return findings;
}

nlohmann::ordered_json json_of(const Finding& finding) {
  nlohmann::ordered_json json{{"id", finding.communicator.value()},
                              {"deadlock", finding.deadlock},
                              {"condition", finding.condition},
                              {"text", finding.text}};
  if (finding.verdict) {
    const auto verdict = nlohmann::ordered_json::parse(runtime::to_json(*finding.verdict));
    for (const char* part : {"causes", "stuck"}) json[part] = verdict[part];
  }
  return json;
}

int report(const runtime::RunningJob& job, const std::vector<Finding>& findings, bool as_json) {
  const bool deadlock = std::ranges::any_of(findings, &Finding::deadlock);
  if (as_json) {
    nlohmann::ordered_json json{
        {"schema", 1}, {"command", "shmoe diagnose"}, {"job", job.name}, {"deadlock", deadlock}};
    json["communicators"] = nlohmann::ordered_json::array();
    for (const Finding& finding : findings) {
      json["communicators"].push_back(json_of(finding));
    }
    fmt::print("{}\n", json.dump(2));
  } else {
    for (const Finding& finding : findings) {
      const std::string scope = findings.size() > 1 ? fmt::format("communicator {}: ", finding.communicator) : "";
      fmt::print("{}{}\n", scope, finding.text);
    }
    if (findings.empty()) fmt::print("no deadlock: the ranks have no communicator yet\n");
  }
  return deadlock ? kExitDeadlock : 0;
}

int diagnose(const DiagnoseOptions& options) {
  const auto job = runtime::choose_job(runtime::running_jobs(), options.job);
  if (!job) return failed("shmoe diagnose", job.error());
  const auto view = runtime::JobView::attach(*job, runtime::JobView::Use::challenge);
  if (!view) return failed("shmoe diagnose", view.error());
  const auto findings = find_all(**view);
  if (!findings) return failed("shmoe diagnose", findings.error());
  return report(*job, *findings, options.json);
}

}  // namespace

void add_diagnose(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<DiagnoseOptions>();
  CLI::App* command = app.add_subcommand("diagnose", kDescription);
  command->add_option("job", options->job, "name of the job, or pid of one of its ranks; default the only one")
      ->type_name("JOB");
  command->add_flag("--json", options->json, "as one JSON object");
  command->callback([options, &invocation] { invocation.exit_code = diagnose(*options); });
}

}  // namespace shmoe::apps
