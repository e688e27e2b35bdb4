// SPDX-License-Identifier: Apache-2.0
// The table of system calls as a program that the kernel runs (Documentation/userspace-api/seccomp_filter.rst).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace dsec::launcher {

// The program, an array of struct sock_filter, for this machine's architecture and the 32-bit ones it can run. Takes
// about 10 ms. `unsupported` when libseccomp cannot make it.
Result<Bytes> compile_seccomp();

// The program in base64, from a file in `cache_dir` (made when missing) or compiled and put there. A cache that cannot
// be used costs time only. The name of the file holds all that the program depends on.
Result<std::string> cached_seccomp_base64(const std::filesystem::path& cache_dir);

// Names of these architectures as the OCI specification has them, this machine's first.
std::vector<std::string> seccomp_architectures();

std::string base64(ByteView bytes);

}  // namespace dsec::launcher
