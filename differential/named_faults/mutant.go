// Package mutant switches named faults on. It is linked into the program under test.
//
// PINPROOF_MUTANT names the faults that are on, with commas between. Without it the program behaves
// as it was written.
package mutant

import (
	"os"
	"strings"
)

var on = map[string]bool{}

func init() {
	for _, name := range strings.Split(os.Getenv("PINPROOF_MUTANT"), ",") {
		on[name] = true
	}
}

// On says whether a fault is on.
func On(name string) bool {
	return on[name]
}
