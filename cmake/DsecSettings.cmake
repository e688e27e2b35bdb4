# SPDX-License-Identifier: Apache-2.0
# Compiler settings that every target of the project shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(DSEC_CCACHE ccache)
if(DSEC_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${DSEC_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DSEC_CCACHE})
endif()

add_library(dsec_settings INTERFACE)
target_include_directories(dsec_settings INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/lazyfs)
target_compile_definitions(dsec_settings INTERFACE _GNU_SOURCE _FILE_OFFSET_BITS=64 DSEC_VERSION="${PROJECT_VERSION}")
target_compile_options(dsec_settings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  # TRY is a statement expression: both compilers have it, and it is the one control-flow macro of the project.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-pedantic>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-gnu-statement-expression -Wno-missing-field-initializers>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-missing-field-initializers>
  # g++ 12 takes the union inside tl::expected for freed or unset memory; the sanitizer builds watch for the real thing.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-free-nonheap-object> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  -fno-strict-aliasing -fstack-protector-strong)
if(DSEC_WERROR)
  target_compile_options(dsec_settings INTERFACE -Werror)
endif()
if(DSEC_SANITIZE)
  target_compile_options(dsec_settings INTERFACE -fsanitize=${DSEC_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(dsec_settings INTERFACE -fsanitize=${DSEC_SANITIZE})
endif()
if(DSEC_FUZZ)
  target_compile_options(dsec_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()
