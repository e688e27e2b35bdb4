// SPDX-License-Identifier: Apache-2.0
#include "state.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "hf3fs_mock.h"

namespace hf3fs_mock {

namespace {

struct Texts {
  std::mutex mutex;
  std::string root;
  std::string breach;
};
Texts& texts() {
  static Texts all;
  return all;
}

const std::map<std::string, Numbers::Number*>& settings() {
  static Numbers& n = numbers();
  static const std::map<std::string, Numbers::Number*> all{
      {"error_every", &n.error_every},
      {"error_errno", &n.error_errno},
      {"short_every", &n.short_every},
      {"over_every", &n.over_every},
      {"never_every", &n.never_every},
      {"stray_every", &n.stray_every},
      {"delay_us", &n.delay_us},
      {"hold", &n.hold},
      {"early", &n.early},
      {"reorder", &n.reorder},
      {"workers", &n.workers},
      {"seed", &n.seed},
      {"prep_errno", &n.prep_errno},
      {"submit_errno", &n.submit_errno},
      {"wait_errno", &n.wait_errno},
      {"reg_errno", &n.reg_errno},
      {"iorcreate_errno", &n.iorcreate_errno},
      {"iovcreate_errno", &n.iovcreate_errno},
  };
  return all;
}

const std::map<std::string, Numbers::Number*>& counts() {
  static Numbers& n = numbers();
  static const std::map<std::string, Numbers::Number*> all{
      {"preps", &n.preps},       {"submits", &n.submits},
      {"waits", &n.waits},       {"reaped", &n.reaped},
      {"early", &n.early_runs},  {"regs", &n.regs},
      {"deregs", &n.deregs},     {"rings", &n.rings},
      {"iovs", &n.iovs},         {"ended_in_flight", &n.ended_in_flight},
      {"breaches", &n.breaches},
  };
  return all;
}

const std::map<std::string, Numbers::Number*>& levels() {
  static Numbers& n = numbers();
  static const std::map<std::string, Numbers::Number*> all{{"open_rings", &n.open_rings},
                                                           {"open_iovs", &n.open_iovs},
                                                           {"open_fds", &n.open_fds},
                                                           {"in_flight", &n.in_flight}};
  return all;
}

[[noreturn]] void unknown(const char* name) {
  std::fprintf(stderr, "hf3fs_mock: no number has the name %s\n", name);
  std::abort();
}

void set_defaults() {
  for (const auto& [name, number] : settings()) *number = 0;
  Numbers& n = numbers();
  n.error_errno = EIO;
  n.early = n.reorder = n.seed = 1;
  n.workers = 2;
}

void write_report(const std::string& path) {
  std::FILE* file = std::fopen((path + ".new").c_str(), "w");
  if (file == nullptr) return;
  for (const auto* group : {&counts(), &levels()}) {
    for (const auto& [name, number] : *group) std::fprintf(file, "%s %ld\n", name.c_str(), number->load());
  }
  std::fclose(file);
  std::rename((path + ".new").c_str(), path.c_str());
}

// What the environment says, when the object is loaded.
struct FromEnvironment {
  FromEnvironment() {
    set_defaults();
    if (const char* root = std::getenv("HF3FS_MOCK_ROOT")) hf3fs_mock_root(root);
    if (const char* text = std::getenv("HF3FS_MOCK")) {
      std::istringstream all(text);
      for (std::string one; std::getline(all, one, ',');) {
        const std::size_t equals = one.find('=');
        if (equals != std::string::npos) hf3fs_mock_set(one.substr(0, equals).c_str(), std::atol(&one[equals + 1]));
      }
    }
    if (const char* path = std::getenv("HF3FS_MOCK_REPORT")) {
      report = path;
      std::thread([path = report] {
        for (;; ::usleep(500000)) write_report(path);
      }).detach();
    }
  }
  ~FromEnvironment() {
    if (!report.empty()) write_report(report);
  }
  std::string report;
};
FromEnvironment from_environment;

}  // namespace

Numbers& numbers() {
  static auto* all = new Numbers;  // for threads that outlive the end of main()
  return *all;
}

void breach(const std::string& text) {
  numbers().breaches++;
  const char* ends = std::getenv("HF3FS_MOCK_ABORT");
  if (ends != nullptr && std::strcmp(ends, "1") == 0) {
    std::fprintf(stderr, "hf3fs_mock: %s\n", text.c_str());
    std::abort();
  }
  const std::lock_guard lock(texts().mutex);
  if (texts().breach.empty()) texts().breach = text;
}

std::string root() {
  const std::lock_guard lock(texts().mutex);
  return texts().root;
}

}  // namespace hf3fs_mock

using namespace hf3fs_mock;

void hf3fs_mock_root(const char* path) {
  char* real = *path != '\0' ? ::realpath(path, nullptr) : nullptr;
  const std::lock_guard lock(texts().mutex);
  texts().root = real != nullptr ? real : "";
  std::free(real);
}

void hf3fs_mock_set(const char* name, long value) {
  const auto found = settings().find(name);
  if (found == settings().end()) unknown(name);
  *found->second = value;
}

long hf3fs_mock_count(const char* name) {
  for (const auto* group : {&counts(), &levels()}) {
    if (const auto found = group->find(name); found != group->end()) return found->second->load();
  }
  unknown(name);
}

const char* hf3fs_mock_breach() {
  static thread_local std::string text;
  const std::lock_guard lock(texts().mutex);
  text = texts().breach;
  return text.c_str();
}

void hf3fs_mock_reset() {
  set_defaults();
  for (const auto& [name, number] : counts()) *number = 0;
  const std::lock_guard lock(texts().mutex);
  texts().breach.clear();
}
