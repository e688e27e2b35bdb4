// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace dsec::test {

namespace fs = std::filesystem;

std::string why_no_sandboxes() {
  if (::geteuid() != 0) return "needs root";
  if (::access("/bin/busybox", X_OK) != 0) return "needs /bin/busybox (apt-get install busybox-static)";
  if (::access("/usr/bin/crun", X_OK) != 0 && std::system("command -v crun >/dev/null") != 0) return "needs crun";
  return {};
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

bool eventually(const std::function<bool()>& done, int ms) {
  for (int waited = 0; waited < ms; waited += 5) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return done();
}

namespace {

void make_root(const fs::path& root) {
  for (const char* dir : {"bin", "etc", "proc", "dev", "sys", "root", "home/user"}) fs::create_directories(root / dir);
  fs::create_directory(root / "tmp");
  fs::permissions(root / "tmp", fs::perms::all | fs::perms::sticky_bit);
  fs::copy_file("/bin/busybox", root / "bin/busybox");
  fs::copy_file(DSEC_PROBE, root / "bin/probe");
  for (const char* name :
       {"sh",   "ls",   "cat", "echo", "id",   "sleep", "true", "false", "touch",  "mkdir", "rm",       "ps",
        "head", "tail", "wc",  "grep", "kill", "mount", "pwd",  "env",   "dd",     "ip",    "hostname", "md5sum",
        "yes",  "stat", "tr",  "seq",  "tty",  "stty",  "ping", "chmod", "printf", "sort",  "usleep"}) {
    fs::create_symlink("busybox", root / "bin" / name);
  }
  write_text(root / "etc/passwd", "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1001:a user:/home/user:/bin/sh\n");
  write_text(root / "etc/group", "root:x:0:\nstaff:x:50:user\nusers:x:1001:\nvideo:x:44:root,user\n");
}

}  // namespace

SandboxBench::SandboxBench() {
  std::string name = "/tmp/dsec-launcher-XXXXXX";
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  dir_ = name;
  prefix_ = "t" + dir_.native().substr(dir_.native().size() - 6);
  make_root(root());
  ::setenv("DSEC_STATE_DIR", (dir_ / "state").c_str(), 1);
  ::setenv("DSEC_RUNTIME_DIR", (dir_ / "run").c_str(), 1);
}

SandboxBench::~SandboxBench() {
  wait_for_removals();
  std::ignore = sweep_orphans();
  if (const auto list = list_sandboxes()) {
    for (const SandboxInfo& info : *list) std::ignore = remove_sandbox(info.id, Force::yes);
  }
  // Not across file systems, whatever a failed test has left mounted.
  std::ignore = run_program({"rm", "-rf", "--one-file-system", dir_.native()});
}

std::string SandboxBench::next_id() { return fmt::format("{}-{}", prefix_, ++count_); }

SandboxSpec SandboxBench::shell(const std::string& script) { return command({"sh", "-c", script}); }

SandboxSpec SandboxBench::command(std::vector<std::string> argv) {
  SandboxSpec spec;
  spec.id = next_id();
  spec.lowers = {root()};
  spec.argv = std::move(argv);
  spec.signals = SandboxSpec::Signals::leave;
  return spec;
}

SandboxBench::Output SandboxBench::run(SandboxSpec spec) {
  const fs::path out = dir_ / (spec.id + ".out");
  const fs::path err = dir_ / (spec.id + ".err");
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd out_fd(::open(out.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  const Fd err_fd(::open(err.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (spec.stdio.in == 0) spec.stdio.in = null.get();
  if (spec.stdio.out == 1) spec.stdio.out = out_fd.get();
  if (spec.stdio.err == 2) spec.stdio.err = err_fd.get();
  const Result<SandboxResult> result = run_sandbox(spec);
  if (!result) FAIL(result.error().message);
  INFO(result->message);
  return {*result, read_text(out), read_text(err)};
}

ChildProcess SandboxBench::start_client(const std::string& id, const std::vector<std::string>& options,
                                        const std::vector<std::string>& command, std::vector<std::pair<int, int>> fds) {
  SpawnOptions spawn;
  spawn.argv = {DSEC_CLIENT, root(), id, dir_ / (id + ".result")};
  spawn.argv.insert(spawn.argv.end(), options.begin(), options.end());
  spawn.argv.emplace_back("--");
  spawn.argv.insert(spawn.argv.end(), command.begin(), command.end());
  spawn.fds = std::move(fds);
  Result<ChildProcess> child = ChildProcess::spawn(spawn);
  if (!child) FAIL(child.error().message);
  return std::move(*child);
}

std::string SandboxBench::client_result(const std::string& id) { return read_text(dir_ / (id + ".result")); }

SandboxInfo SandboxBench::wait_running(const std::string& id) {
  SandboxInfo found;
  const bool running = eventually([&] {
    const auto list = list_sandboxes();
    if (!list) return false;
    for (const SandboxInfo& info : *list) {
      if (info.id == id && info.state == "running") found = info;
    }
    return !found.id.empty();
  });
  REQUIRE(running);
  return found;
}

namespace {

void find_names(const fs::path& dir, const std::string& prefix, std::vector<std::string>& found) {
  std::error_code error;
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().native().rfind(prefix, 0) == 0) found.push_back(at->path());
  }
}

bool is_number(const std::string& name) { return name.find_first_not_of("0123456789") == std::string::npos; }

}  // namespace

std::vector<std::string> SandboxBench::leftovers() const {
  std::vector<std::string> found;
  for (const fs::path& dir : {sandboxes(), sandboxes() / ".trash", sandboxes() / ".names"})
    find_names(dir, prefix_, found);
  std::error_code error;
  for (fs::directory_iterator at("/sys/fs/cgroup", error), end; !error && at != end; at.increment(error)) {
    find_names(at->path() / "dsec", prefix_, found);
  }
  find_names("/sys/fs/cgroup/dsec", prefix_, found);
  std::istringstream mounts(read_text("/proc/self/mountinfo"));
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(dir_.native()) != std::string::npos) found.push_back("mount " + line);
  }
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    if (!is_number(at->path().filename())) continue;
    const bool ours =
        read_text(at->path() / "cgroup").find("/dsec/" + prefix_) != std::string::npos ||
        read_text(at->path() / "cmdline").find("dsec-monitor" + std::string(1, '\0') + prefix_) != std::string::npos;
    if (ours) found.push_back("process " + at->path().filename().native());
  }
  return found;
}

std::vector<std::string> SandboxBench::leftovers_soon() const {
  eventually([&] { return leftovers().empty(); });
  return leftovers();
}

}  // namespace dsec::test
