#include <cstdio>
#include <cstring>

#include "tests.h"

// Runs all tests, or the tests whose names contain the argument.
int main(int argc, char** argv) {
  check::Tests tests;
  AddBundleTests(&tests);
  AddForkTests(&tests);
  AddGraphTests(&tests);
  AddMemoryTests(&tests);
  AddPlanTests(&tests);
  AddRetiredTests(&tests);
  AddStepTimerTests(&tests);
  AddTeamTests(&tests);
  AddThreadTests(&tests);
  int n_run = 0;
  for (const check::Test& test : tests) {
    if (argc > 1 && std::strstr(test.name, argv[1]) == nullptr) continue;
    std::printf("%s\n", test.name);
    std::fflush(stdout);
    test.run();
    ++n_run;
  }
  std::printf("%d tests passed\n", n_run);
  return n_run == 0 ? 1 : 0;
}
