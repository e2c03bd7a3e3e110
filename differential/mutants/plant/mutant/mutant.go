// Package mutant switches planted faults on. It is linked into the program under test.
//
// PINPROOF_MUTANT names the mutants that are on, by number, with commas between. Without it the
// program behaves as it was written. PINPROOF_REACHED names a file that gets the number of every
// mutant whose place was reached, once, one a line.
package mutant

import (
	"cmp"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

const most = 1 << 16

var (
	set     [most]bool
	any     bool
	notes   *os.File
	reached [most]atomic.Bool
)

func init() {
	for _, word := range strings.Split(os.Getenv("PINPROOF_MUTANT"), ",") {
		if id, err := strconv.Atoi(word); err == nil && 0 <= id && id < most {
			set[id], any = true, true
		}
	}
	if path := os.Getenv("PINPROOF_REACHED"); path != "" {
		notes, _ = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	}
}

// On says whether a mutant is on, and notes that its place was reached.
func On(id int) bool {
	if notes != nil && !reached[id].Swap(true) {
		notes.WriteString(strconv.Itoa(id) + "\n")
	}
	return any && set[id]
}

type number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Not negates a condition.
func Not[T ~bool](id int, is T) T {
	if On(id) {
		return !is
	}
	return is
}

// Never makes a condition false.
func Never[T ~bool](id int, is T) T {
	return is && T(!On(id))
}

// And becomes "or".
func And(id int, left bool, right func() bool) bool {
	if On(id) {
		return left || right()
	}
	return left && right()
}

// Or becomes "and".
func Or(id int, left bool, right func() bool) bool {
	if On(id) {
		return left && right()
	}
	return left || right()
}

// Less takes the bound in.
func Less[T cmp.Ordered](id int, left, right T) bool {
	on := On(id)
	return left < right || on && left == right
}

// LessEqual leaves the bound out.
func LessEqual[T cmp.Ordered](id int, left, right T) bool {
	off := !On(id)
	return left < right || off && left == right
}

// Greater takes the bound in.
func Greater[T cmp.Ordered](id int, left, right T) bool {
	on := On(id)
	return left > right || on && left == right
}

// GreaterEqual leaves the bound out.
func GreaterEqual[T cmp.Ordered](id int, left, right T) bool {
	off := !On(id)
	return left > right || off && left == right
}

// Plus adds one.
func Plus[T number](id int, value T) T {
	if On(id) {
		return value + 1
	}
	return value
}

// Add becomes a subtraction.
func Add[T number](id int, left, right T) T {
	if On(id) {
		return left - right
	}
	return left + right
}

// Sub becomes an addition.
func Sub[T number](id int, left, right T) T {
	if On(id) {
		return left + right
	}
	return left - right
}

// Mul becomes a division.
func Mul[T number](id int, left, right T) T {
	if On(id) {
		return left / right
	}
	return left * right
}

// Div becomes a multiplication.
func Div[T number](id int, left, right T) T {
	if On(id) {
		return left * right
	}
	return left / right
}

// Zero becomes the zero value.
func Zero[T interface{}](id int, value T) T {
	if On(id) {
		var zero T
		return zero
	}
	return value
}

// Other becomes another value.
func Other[T interface{}](id int, value, other T) T {
	if On(id) {
		return other
	}
	return value
}

// Fail is nil, and becomes an error.
func Fail(id int) error {
	if On(id) {
		return errors.New("planted fault")
	}
	return nil
}
