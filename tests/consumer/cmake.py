"""A CMake project that finds the installed library through pkg-config: shared, as a target, and static, by its flags; C and C++.

usage: cmake.py BUILD
"""
import shutil
import sys

from installed import installed, run

LISTS = """cmake_minimum_required(VERSION 3.16)
project(stranger C CXX)
set(CMAKE_C_STANDARD 11)
set(CMAKE_CXX_STANDARD 17)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PAGEHINT REQUIRED IMPORTED_TARGET pagehint>=0.1)

add_executable(shared main.c)
target_link_libraries(shared PRIVATE PkgConfig::PAGEHINT)
add_executable(shared-cxx main.cc)
target_link_libraries(shared-cxx PRIVATE PkgConfig::PAGEHINT)

add_executable(static main.c)
target_compile_options(static PRIVATE ${PAGEHINT_STATIC_CFLAGS})
target_link_options(static PRIVATE -static)
target_link_libraries(static PRIVATE ${PAGEHINT_STATIC_LDFLAGS})

enable_testing()
foreach(program shared shared-cxx static)
  add_test(NAME ${program} COMMAND ${program})
endforeach()
"""
PROGRAM = """#include <pagehint/zone.h>
int main(void)
{
	uint64_t bytes;
	struct pagehint_zone_opts opts = { sizeof(opts) };
	opts.max_sections = 1;
	return pagehint_zone_size(&opts, &bytes) != 0 || bytes == 0;
}
"""


def main():
    if shutil.which("cmake") is None:
        print("not applicable: cmake is not installed")
        return 77
    with installed(sys.argv[1]) as (where, directory):
        source, build = directory / "source", directory / "build"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(LISTS)
        for name in ("main.c", "main.cc"):
            (source / name).write_text(PROGRAM)
        run(["cmake", "-G", "Ninja", "-S", source, "-B", build], env=where.env)
        run(["cmake", "--build", build, "-j", "2"], env=where.env)
        print(run(["ctest", "--test-dir", build, "--no-tests=error"], env=where.env))
        for program, is_shared in [("shared", True), ("shared-cxx", True), ("static", False)]:
            if ("libpagehint.so.0.1" in run(["readelf", "-d", build / program])) != is_shared:
                sys.exit(f"{program} is not linked as it should be")
    print("cmake: found through pkg-config, linked shared and static, run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
