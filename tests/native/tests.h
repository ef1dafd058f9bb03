// The test files.
#ifndef OPWRIGHT_TESTS_TESTS_H_
#define OPWRIGHT_TESTS_TESTS_H_

#include "check.h"

void AddBundleTests(check::Tests* tests);
void AddForkTests(check::Tests* tests);
void AddGraphTests(check::Tests* tests);
void AddMemoryTests(check::Tests* tests);
void AddPlanTests(check::Tests* tests);
void AddRetiredTests(check::Tests* tests);
void AddStepTimerTests(check::Tests* tests);
void AddTeamTests(check::Tests* tests);
void AddThreadTests(check::Tests* tests);

#endif  // OPWRIGHT_TESTS_TESTS_H_
