#include "apps/check/recordings.hpp"

#include <memory>
#include <utility>

#include "apps/check/campaign.hpp"
#include "apps/check/story_json.hpp"
#include "runtime/check/explain.hpp"
#include "runtime/check/explore.hpp"
#include "runtime/check/replay.hpp"

namespace shmoe::apps {
namespace {

using runtime::check::Body;
using runtime::check::Explorer;
using runtime::check::Program;
using runtime::check::Recording;
using runtime::check::Run;
using runtime::check::Setting;
using runtime::check::Step;
using runtime::check::World;

/// A program made again in the world of its recording.
struct Scene {
  Recording recording;
  std::unique_ptr<World> world;
  Body body;
  Run run;

  [[nodiscard]] Explorer explorer() { return Explorer(*world, body); }
};

Result<Scene> open(Programs programs, std::string_view text, bool story) {
  auto recording = runtime::check::parse_recording(text);
  if (!recording) return std::move(recording).error();
  auto program = find_program(programs, recording->program);
  if (!program) return std::move(program).error().within("this replay string");
  auto setting = runtime::check::parse_setting(recording->world);
  if (!setting) return std::move(setting).error().within("this replay string");
  if (setting->ranks > kMostRanks || setting->cores > shmem::kMaxCores) {
    return Error{.code = Errc::invalid_argument,
                 .context = fmt::format("this replay string: world {}: at most {} ranks of {} cores", recording->world,
                                        kMostRanks, shmem::kMaxCores)};
  }
  Scene scene{.recording = *std::move(recording),
              .world = std::make_unique<World>(shape_of(**program, *setting)),
              .body = (*program)->make(*setting),
              .run = {}};
  scene.run = scene.explorer().replay(scene.recording.deviations, story);
  return scene;
}

Result<Scene> open_failure(Programs programs, std::string_view text) {
  auto scene = open(programs, text, false);
  if (!scene || !scene->run.verdict.clean()) return scene;
  return Error{.code = Errc::invalid_argument,
               .context = fmt::format("{} does not fail on this schedule in this build", scene->recording.program)};
}

}  // namespace

Result<Replayed> replay_recording(Programs programs, std::string_view text, Detail detail) {
  auto scene = open(programs, text, detail != Detail::verdict);
  if (!scene) return std::move(scene).error();
  const Run& run = scene->run;
  if (detail == Detail::json) {
    return Replayed{.text = story_json(std::string(text), *scene->world, run).dump(2) + '\n',
                    .fails = !run.verdict.clean()};
  }
  Replayed replayed{.text = "", .fails = !run.verdict.clean()};
  std::size_t number = 0;
  for (const Step& step : run.story) {
    replayed.text +=
        fmt::format("{:>4}  {}\n", ++number, to_string(step, scene->world->slots(), scene->world->shape().cores));
  }
  if (run.deviations != scene->recording.deviations) {
    replayed.text += "note: not all choices of the string could be made: it is of another build of the program\n";
  }
  replayed.text += run.verdict.clean() ? "clean\n" : to_string(run.verdict) + '\n';
  return replayed;
}

Result<Replayed> shrink_recording(Programs programs, std::string_view text) {
  auto scene = open_failure(programs, text);
  if (!scene) return std::move(scene).error();
  Recording recording = scene->recording;
  Explorer explorer = scene->explorer();
  recording.deviations = shrink(explorer, scene->run).deviations;
  return Replayed{.text = to_text(recording) + '\n', .fails = true};
}

Result<Replayed> explain_recording(Programs programs, std::string_view text) {
  auto scene = open_failure(programs, text);
  if (!scene) return std::move(scene).error();
  Explorer explorer = scene->explorer();
  const Run small = shrink(explorer, scene->run);
  return Replayed{.text = explain(*scene->world, scene->body, small) + '\n', .fails = true};
}

}  // namespace shmoe::apps
