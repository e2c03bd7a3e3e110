package main

import (
	"sort"
	"strings"
)

// An edit puts text into a source in the place of what lies from at to end. Edits that only insert
// may meet at one place: what closes comes before what opens, inner before outer.
type edit struct {
	at, end int
	text    string
	closes  bool
	mutant  *Mutant
}

// applied is the source with the edits of every mutant that was not dropped. No edit adds or takes
// away a line, so that what a compiler says of line n is about line n of the source.
func applied(source []byte, edits []edit) string {
	kept := make([]int, 0, len(edits))
	for number, each := range edits {
		if each.mutant == nil || !each.mutant.dropped {
			kept = append(kept, number)
		}
	}
	sort.SliceStable(kept, func(i, j int) bool {
		a, b := edits[kept[i]], edits[kept[j]]
		if a.at != b.at {
			return a.at < b.at
		}
		if a.closes != b.closes {
			return a.closes
		}
		if a.closes {
			return kept[i] > kept[j]
		}
		return kept[i] < kept[j]
	})
	var out strings.Builder
	from := 0
	for _, number := range kept {
		each := edits[number]
		out.Write(source[from:each.at])
		out.WriteString(strings.ReplaceAll(each.text, "$ID", each.mutant.number()))
		from = each.end
	}
	out.Write(source[from:])
	return out.String()
}
