// SPDX-License-Identifier: Apache-2.0
// What the tests of composing share.
#pragma once

#include <map>
#include <string>

#include "composer/compose.h"
#include "store/store_support.h"

namespace dsec::composer::compose_test {

using dsec::test::count_files;
using dsec::test::damage;
using dsec::test::digest_of;
using dsec::test::new_store;
using dsec::test::noise;
using dsec::test::read_text;
using dsec::test::write_text;

// Composes one source as `name`. The error, if any, fails the test.
ComposeReport composed(const store::Store& store, const std::string& source, const std::string& name,
                       unsigned jobs = 1);
Result<ComposeReport> try_compose(const store::Store& store, const std::string& source, const std::string& name,
                                  unsigned jobs = 1);

// The content of every regular file of an environment, read through its maps and packs with every digest verified.
// Layers are laid over each other by name only.
std::map<std::string, std::string> contents_of(const store::Store& store, const Digest& env);

// Every file of a store but tmp/ and store.toml, by its path in it, with its bytes.
std::map<std::string, std::string> files_of(const store::Store& store);

// A directory tree of a few dozen files: small, large, equal, sparse, empty.
void make_sample(const std::filesystem::path& dir, std::uint64_t seed);

}  // namespace dsec::composer::compose_test
