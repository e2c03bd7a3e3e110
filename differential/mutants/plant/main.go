// plant reads Go packages and writes them again with a fault at every place where one can be
// planted, each behind a switch (package mutant).
//
//	plant < request.json > answer.json
//
// The request names files and the compiled packages that they import; the answer has the mutants,
// and the sources with all of them. No line is added or taken away. What does not compile is left
// out.
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"regexp"
	"sort"
	"strings"
)

//go:embed mutant/mutant.go
var switchSource string

// rounds is how often what does not compile is dropped before the files are given up.
const rounds = 40

// A pack is one package of the request. Plant says in which files; of those, Functions (a regular
// expression) says in which functions, where it is not empty.
type pack struct {
	Path      string            `json:"path"`
	Files     []string          `json:"files"`
	Plant     map[string]string `json:"plant"`
	Functions string            `json:"functions"`
}

type request struct {
	Packages []pack            `json:"packages"`
	Exports  map[string]string `json:"exports"`
	Switch   string            `json:"switch"`
}

type answer struct {
	Mutants []*Mutant         `json:"mutants"`
	Sources map[string]string `json:"sources"`
	Texts   map[string]string `json:"texts"`
	Dropped int               `json:"dropped"`
}

type sourceFile struct {
	path, name string
	functions  *regexp.Regexp
	text       []byte
	lines      []string
	tree       *ast.File
	pkg        *types.Package
	edits      []edit
}

func main() {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		fail(err)
	}
	reply, err := planted(&asked)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(reply); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "plant:", err)
	os.Exit(1)
}

func planted(asked *request) (*answer, error) {
	work := &worker{asked: asked, fset: token.NewFileSet(), swaps: map[string]bool{}}
	reply := &answer{Sources: map[string]string{}, Texts: map[string]string{}}
	for i := range asked.Packages {
		if err := work.plant(&asked.Packages[i], reply); err != nil {
			return nil, fmt.Errorf("%s: %w", asked.Packages[i].Path, err)
		}
	}
	if err := work.settle(reply); err != nil {
		return nil, err
	}
	return reply, nil
}

type worker struct {
	asked   *request
	fset    *token.FileSet
	swaps   map[string]bool
	packs   []*pieces
	mutants []*Mutant
}

// pieces are a package's files.
type pieces struct {
	path  string
	files []*sourceFile
}

func (w *worker) imports() types.Importer {
	return importer.ForCompiler(w.fset, "gc", func(path string) (io.ReadCloser, error) {
		file, ok := w.asked.Exports[path]
		if !ok || file == "" {
			return nil, fmt.Errorf("%s was not compiled", path)
		}
		return os.Open(file)
	})
}

func (w *worker) plant(asked *pack, reply *answer) error {
	made := &pieces{path: asked.Path}
	var trees []*ast.File
	for _, path := range asked.Files {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		tree, err := parser.ParseFile(w.fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		name, wanted := asked.Plant[path]
		if !wanted {
			name = ""
		}
		file := &sourceFile{path: path, name: name, text: text, tree: tree, lines: strings.Split(string(text), "\n")}
		if asked.Functions != "" {
			file.functions = regexp.MustCompile(asked.Functions)
		}
		made.files = append(made.files, file)
		trees = append(trees, tree)
	}
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Instances: map[*ast.Ident]types.Instance{},
	}
	config := &types.Config{Importer: w.imports()}
	pkg, err := config.Check(asked.Path, w.fset, trees, info)
	if err != nil {
		return err
	}
	for _, file := range made.files {
		file.pkg = pkg
		if file.name != "" {
			w.plantFile(file, info, reply)
		}
	}
	w.packs = append(w.packs, made)
	return nil
}

func (w *worker) plantFile(file *sourceFile, info *types.Info, reply *answer) {
	p := &planter{file: file, info: info, fset: w.fset, swaps: w.swaps, newSet: newSetOf(file.tree, file.pkg)}
	for _, each := range file.tree.Decls {
		function, ok := each.(*ast.FuncDecl)
		if !ok || file.functions != nil && !file.functions.MatchString(function.Name.Name) {
			continue
		}
		reply.Texts[file.name+":"+function.Name.Name] += p.text(function) + "\n"
		p.declaration(function)
	}
	file.edits = p.edits
	w.mutants = append(w.mutants, p.mutants...)
}

// newSetOf is how the file writes the empty cpuset; "" where it does not know the package.
func newSetOf(tree *ast.File, pkg *types.Package) string {
	for _, each := range tree.Imports {
		path := strings.Trim(each.Path.Value, `"`)
		if !strings.HasSuffix(path, "/cpuset") {
			continue
		}
		for _, imported := range pkg.Imports() {
			if imported.Path() != path {
				continue
			}
			for _, name := range []string{"New", "NewCPUSet"} {
				if imported.Scope().Lookup(name) != nil {
					return "cpuset." + name + "()"
				}
			}
		}
	}
	return ""
}

// settle drops what does not compile, and numbers and writes what does.
func (w *worker) settle(reply *answer) error {
	w.renumber()
	for range rounds {
		bad, err := w.check(reply)
		if err != nil {
			return err
		}
		if bad == 0 {
			for _, each := range w.mutants {
				if !each.dropped {
					reply.Mutants = append(reply.Mutants, each)
				}
			}
			reply.Dropped = len(w.mutants) - len(reply.Mutants)
			return nil
		}
	}
	return fmt.Errorf("it does not compile after %d rounds", rounds)
}

func (w *worker) renumber() {
	seen := map[string]int{}
	for number, each := range w.mutants {
		each.Number = number + 1
		id := fmt.Sprintf("%s:%s:%d:%s", each.File, each.Function, each.Line, each.Kind)
		seen[id]++
		if seen[id] > 1 {
			id = fmt.Sprintf("%s#%d", id, seen[id])
		}
		each.ID = id
	}
}

// check type-checks everything as it is now, and drops the mutants of the lines that do not pass.
func (w *worker) check(reply *answer) (int, error) {
	fset := token.NewFileSet()
	compiled := w.imports()
	source := switchSource + swapSource(w.swaps)
	parsed, err := parser.ParseFile(fset, "mutant.go", source, 0)
	if err != nil {
		return 0, err
	}
	switches, err := (&types.Config{Importer: compiled}).Check(w.asked.Switch, fset, []*ast.File{parsed}, nil)
	if err != nil {
		return 0, err
	}
	reply.Sources[""] = source
	bad := 0
	for _, pack := range w.packs {
		var trees []*ast.File
		for _, file := range pack.files {
			text := string(file.text)
			if file.name != "" {
				text = applied(withImport(file, w.asked.Switch))
				reply.Sources[file.path] = text
			}
			tree, err := parser.ParseFile(fset, file.path, text, 0)
			if err != nil {

				return 0, err
			}
			trees = append(trees, tree)
		}
		config := &types.Config{
			Importer: both{compiled, w.asked.Switch, switches},
			Error: func(err error) {
				if found, ok := err.(types.Error); ok {
					at := fset.Position(found.Pos)
					bad += w.drop(at.Filename, at.Line, found.Msg)
				}
			},
		}
		if _, err := config.Check(pack.path, fset, trees, nil); err != nil && bad == 0 {
			return 0, err
		}
	}
	return bad, nil
}

func withImport(file *sourceFile, path string) ([]byte, []edit) {
	at := int(file.tree.Name.End() - file.tree.FileStart)
	line := edit{at: at, end: at, text: fmt.Sprintf("; import mutant_ %q", path)}
	last := edit{at: len(file.text), end: len(file.text), text: "\nvar _ = mutant_.On\n"}
	return file.text, append([]edit{line, last}, file.edits...)
}

// drop drops the mutants on a line: those of its own first, then those that reach over it.
func (w *worker) drop(path string, line int, said string) int {
	count := 0
	for _, exact := range []bool{true, false} {
		for _, pack := range w.packs {
			for _, file := range pack.files {
				if file.path != path {
					continue
				}
				for _, each := range w.mutants {
					on := each.Line <= line && line <= each.lastLine
					if exact {
						on = each.Line == line
					}
					if each.File == file.name && on && !each.dropped {
						each.dropped = true
						count++
						fmt.Fprintf(os.Stderr, "dropped %s: %s\n", each.ID, said)
					}
				}
			}
		}
		if count > 0 {
			break
		}
	}
	return count
}

// both imports the package of the switches as it was just made.
type both struct {
	types.Importer
	path string
	made *types.Package
}

func (b both) Import(path string) (*types.Package, error) {
	if path == b.path {
		return b.made, nil
	}
	return b.Importer.Import(path)
}

// swapSource has the functions that exchange arguments: SwapIOfN exchanges number I and the next.
func swapSource(names map[string]bool) string {
	var sorted []string
	for name := range names {
		sorted = append(sorted, name)
	}
	sort.Strings(sorted)
	var out strings.Builder
	for _, name := range sorted {
		var at, of int
		fmt.Sscanf(name, "Swap%dOf%d", &at, &of)
		var parameters, kinds, plain, swapped []string
		for i := range of {
			kind := fmt.Sprintf("T%d", i)
			if i == at+1 {
				kind = fmt.Sprintf("T%d", at)
			} else {
				parameters = append(parameters, kind+" interface{}")
			}
			kinds = append(kinds, kind)
			plain = append(plain, fmt.Sprintf("a%d", i))
		}
		swapped = append(swapped, plain...)
		swapped[at], swapped[at+1] = swapped[at+1], swapped[at]
		var arguments []string
		for i := range of {
			arguments = append(arguments, plain[i]+" "+kinds[i])
		}
		fmt.Fprintf(&out, "\n// %s exchanges two arguments.\nfunc %s[%s](id int, %s) (%s) {\n\tif On(id) {\n\t\treturn %s\n\t}\n\treturn %s\n}\n",
			name, name, strings.Join(parameters, ", "), strings.Join(arguments, ", "), strings.Join(kinds, ", "),
			strings.Join(swapped, ", "), strings.Join(plain, ", "))
	}
	return out.String()
}
