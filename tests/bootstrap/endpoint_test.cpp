#include "bootstrap/endpoint.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "bootstrap/text.hpp"
#include "tests/bootstrap/support.hpp"

namespace shmoe::bootstrap {
namespace {

using test::environment_of;

Launch launch_of(int size, std::optional<std::string> secret = {}) {
  return Launch{"test", Rank{0}, size, "job 7", std::move(secret), "test"};
}

}  // namespace

TEST_CASE("an address is four plain numbers and a port") {
  CHECK(parse_address("127.0.0.1:10067", "x")->text() == "127.0.0.1:10067");
  CHECK(parse_address("1.2.3.4:1", "x")->port == 1);
  CHECK(parse_address("10.0.0.255:65535", "x")->port == 65535);

  for (const char* bad : {"",
                          ":",
                          "999.1.1.1:x",
                          "tcp://999.1.1.1:x",
                          "127.0.0.1",
                          "127.0.0.1:",
                          "127.0.0.1:0",
                          "127.0.0.1:10067xyz",
                          "127.0.0.1:-1",
                          "127.0.0.1:+1",
                          "127.0.0.1:0x10",
                          "127.0.0.1: 5",
                          "127.0.0.1:5 ",
                          " 127.0.0.1:5",
                          "127.0.0.1:010",
                          "127.0.0.1:65536",
                          "127.0.0.1:70000",
                          "127.0.0.1:abc",
                          "1.2.3.4:5:6",
                          "localhost:10067",
                          "host.example:5",
                          "[::1]:5",
                          "::1:5",
                          "010.0.0.1:5",
                          "127.0.0.01:5",
                          "1.2.3:5",
                          "1.2.3.4.5:5",
                          "1.2.3.:5",
                          ".1.2.3:5",
                          "1..2.3:5",
                          "256.1.1.1:5",
                          "1.2.3.-4:5",
                          "0x7f.0.0.1:5",
                          "0.0.0.0:5",
                          "224.0.0.1:5",
                          "255.255.255.255:5",
                          ":5",
                          "127.0.0.1:99999999999"}) {
    const auto address = parse_address(bad, "SHMOE_COMM_ID");
    INFO(bad);
    REQUIRE_FALSE(address.has_value());
    CHECK(address.error().code == Errc::invalid_argument);
    CHECK(address.error().context.find("SHMOE_COMM_ID is '" + std::string(bad) + "'") == 0);
  }
}

TEST_CASE("argument, SHMOE_COMM_ID, CAM_COMM_ID, file: the first one given is the one taken") {
  const test::TemporaryFolder folder;
  const auto runtime = folder.path().native();
  const auto all =
      environment_of({{"SHMOE_COMM_ID", "127.0.0.1:2"}, {"CAM_COMM_ID", "127.0.0.1:3"}, {"XDG_RUNTIME_DIR", runtime}});
  const auto cam = environment_of({{"CAM_COMM_ID", "127.0.0.1:3"}, {"XDG_RUNTIME_DIR", runtime}});
  const auto none = environment_of({{"XDG_RUNTIME_DIR", runtime}});

  CHECK(choose_endpoint("127.0.0.1:1", all, launch_of(2))->address.port == 1);
  CHECK(choose_endpoint({}, all, launch_of(2))->address.port == 2);
  CHECK(choose_endpoint({}, cam, launch_of(2))->address.port == 3);
  CHECK(choose_endpoint({}, cam, launch_of(2))->source == "CAM_COMM_ID");
  const auto by_file = choose_endpoint({}, none, launch_of(2));
  CHECK(by_file->kind == EndpointKind::rendezvous_file);
  CHECK(by_file->file == folder.path() / ("shmoe-" + file_name_of("job 7") + ".meeting"));
  CHECK(choose_endpoint({}, none, launch_of(1))->kind == EndpointKind::alone);
}

TEST_CASE("a bad address is never passed over") {
  const auto environment = environment_of({{"SHMOE_COMM_ID", "999.1.1.1:x"}, {"CAM_COMM_ID", "127.0.0.1:3"}});
  for (const int size : {1, 2}) {
    const auto by_variable = choose_endpoint({}, environment, launch_of(size));
    REQUIRE_FALSE(by_variable.has_value());
    CHECK(by_variable.error().context.find("SHMOE_COMM_ID is '999.1.1.1:x'") == 0);
    const auto by_argument = choose_endpoint("", environment, launch_of(size));
    REQUIRE_FALSE(by_argument.has_value());
    CHECK(by_argument.error().context.find("the address argument is ''") == 0);
  }
  const auto by_cam = choose_endpoint({}, environment_of({{"CAM_COMM_ID", ""}}), launch_of(2));
  REQUIRE_FALSE(by_cam.has_value());
  CHECK(by_cam.error().context.find("CAM_COMM_ID is ''") == 0);
}

TEST_CASE("an address that other hosts can reach needs a secret") {
  const auto refused = choose_endpoint("10.0.0.1:5", environment_of({}), launch_of(2));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().context.find("SHMOE_SECRET") != std::string::npos);
  const auto open = choose_endpoint("10.0.0.1:5", environment_of({}), launch_of(2, "hush"));
  REQUIRE(open.has_value());
  const std::string job = launch_of(2).job_id;
  CHECK(same(open->secret, hashed_secret("hush\n" + job)));
  CHECK_FALSE(same(open->secret, hashed_secret("hush \n" + job)));
  Launch other = launch_of(2, "hush");
  other.job_id = job + "2";
  CHECK_FALSE(same(open->secret, choose_endpoint("10.0.0.1:5", environment_of({}), other)->secret));
  CHECK(same(choose_endpoint("127.9.9.9:5", environment_of({}), launch_of(2))->secret, hashed_secret("\n" + job)));
}

TEST_CASE("the published default is the last resort") {
  const auto endpoint = choose_endpoint({}, environment_of({}), launch_of(2), "/proc");
  REQUIRE(endpoint.has_value());
  CHECK(endpoint->kind == EndpointKind::published_default);
  CHECK(endpoint->address.text() == "127.0.0.1:10067");
}

TEST_CASE("job ids become file names of their own") {
  CHECK(file_name_of("2100887553") == "2100887553");
  CHECK(file_name_of("a/../b").find('/') == std::string::npos);
  CHECK(file_name_of("a/b") != file_name_of("a_b"));
  CHECK(file_name_of("a/b") != file_name_of("a:b"));
  CHECK(file_name_of(std::string(500, 'x')).size() < 100);
  CHECK(file_name_of(std::string(500, 'x')) != file_name_of(std::string(501, 'x')));
}

TEST_CASE("long lists of ranks are grouped and cut") {
  CHECK(name_ranks({3}) == "3");
  CHECK(name_ranks({1, 2, 3, 7}) == "1-3, 7");
  std::vector<std::int32_t> odd;
  for (int rank = 1; rank < 80; rank += 2) odd.push_back(rank);
  CHECK(name_ranks(odd) == "1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and 30 more");
}

TEST_CASE("a runtime folder belongs to this user alone") {
  const test::TemporaryFolder folder;
  const auto own = folder.path() / fmt::format("shmoe-{}", ::geteuid());
  const auto xdg = folder.path() / "xdg";
  ::mkdir(xdg.c_str(), 0755);
  const auto environment = environment_of({{"XDG_RUNTIME_DIR", xdg.native()}});

  SUBCASE("an open XDG_RUNTIME_DIR is passed over") { CHECK(*runtime_folder(environment, folder.path()) == own); }
  SUBCASE("a private one is taken") {
    ::chmod(xdg.c_str(), 0700);
    CHECK(*runtime_folder(environment, folder.path()) == xdg);
  }
  SUBCASE("a link is not followed") {
    ::chmod(xdg.c_str(), 0700);
    std::filesystem::create_directory_symlink(xdg, own);
    CHECK(runtime_folder(environment_of({}), folder.path()).error().code == Errc::permission);
  }
  SUBCASE("an open folder in the place of ours is an error that names it") {
    ::mkdir(own.c_str(), 0777);
    ::chmod(own.c_str(), 0777);
    const auto refused = choose_endpoint({}, environment, launch_of(2), folder.path());
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == Errc::permission);
    CHECK(refused.error().context.find(own.native()) != std::string::npos);
  }
  SUBCASE("what is made has mode 0700") {
    CHECK(runtime_folder(environment_of({}), folder.path()).has_value());
    struct stat about {};
    CHECK(::lstat(own.c_str(), &about) == 0);
    CHECK((about.st_mode & 07777) == 0700);
  }
}

}  // namespace shmoe::bootstrap
