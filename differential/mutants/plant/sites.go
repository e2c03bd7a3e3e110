package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strconv"
	"strings"
)

// Mutant is one fault that can be switched on.
type Mutant struct {
	Number   int    `json:"number"`
	ID       string `json:"id"`
	File     string `json:"file"`
	Function string `json:"function"`
	Line     int    `json:"line"`
	Kind     string `json:"kind"`
	Before   string `json:"before"`
	After    string `json:"after"`
	Source   string `json:"source"`
	dropped  bool
	lastLine int
}

func (m *Mutant) number() string {
	if m == nil {
		return ""
	}
	return strconv.Itoa(m.Number)
}

const most = 120

func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}

// A planter finds the places of one file. Its edits nest, since an expression is visited before its
// parts.
type planter struct {
	file     *sourceFile
	info     *types.Info
	fset     *token.FileSet
	function string
	results  []*types.Signature
	newSet   string
	swaps    map[string]bool
	edits    []edit
	mutants  []*Mutant
}

func (p *planter) offset(at token.Pos) int { return p.fset.Position(at).Offset }

func (p *planter) text(node ast.Node) string {
	return string(p.file.text[p.offset(node.Pos()):p.offset(node.End())])
}

func (p *planter) mutant(node ast.Node, kind, before, after string) *Mutant {
	line := p.fset.Position(node.Pos()).Line
	made := &Mutant{
		File: p.file.name, Function: p.function, Line: line, Kind: kind,
		Before: short(before), After: short(after), Source: strings.TrimSpace(p.file.lines[line-1]),
		lastLine: p.fset.Position(node.End()).Line,
	}
	p.mutants = append(p.mutants, made)
	return made
}

func (p *planter) insert(at token.Pos, text string, closes bool, of *Mutant) {
	offset := p.offset(at)
	p.edits = append(p.edits, edit{at: offset, end: offset, text: text, closes: closes, mutant: of})
}

func (p *planter) replace(at token.Pos, length int, text string, of *Mutant) {
	offset := p.offset(at)
	p.edits = append(p.edits, edit{at: offset, end: offset + length, text: text, mutant: of})
}

// wrap puts a call of the package mutant around an expression.
func (p *planter) wrap(node ast.Node, call, rest string, of *Mutant) {
	p.insert(node.Pos(), "mutant_."+call+"($ID, ", false, of)
	p.insert(node.End(), rest+")", true, of)
}

// --- functions and statements ------------------------------------------------------------------

func (p *planter) declaration(function *ast.FuncDecl) {
	p.function = function.Name.Name
	if function.Body == nil || p.function == "String" || p.function == "GoString" || p.function == "init" {
		return
	}
	signature, _ := p.info.Defs[function.Name].Type().(*types.Signature)
	p.body(signature, function.Body)
}

func (p *planter) body(signature *types.Signature, body *ast.BlockStmt) {
	p.results = append(p.results, signature)
	p.list(body.List)
	p.results = p.results[:len(p.results)-1]
}

func (p *planter) list(statements []ast.Stmt) {
	for _, each := range statements {
		p.droppable(each)
		p.statement(each)
	}
}

// droppable leaves a whole statement out.
func (p *planter) droppable(statement ast.Stmt) {
	switch s := statement.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok || p.isTalk(call) || isLock(call) || isPanic(call) {
			return
		}
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE || isBlank(s.Lhs) || p.isTalk(s.Rhs[0]) {
			return
		}
	case *ast.IncDecStmt:
	case *ast.BranchStmt:
		if s.Tok != token.BREAK && s.Tok != token.CONTINUE {
			return
		}
	default:
		return
	}
	made := p.mutant(statement, "left-out", p.text(statement), "")
	p.insert(statement.Pos(), "if !mutant_.On($ID) { ", false, made)
	p.insert(statement.End(), " }", true, made)
}

func isBlank(names []ast.Expr) bool {
	for _, each := range names {
		if name, ok := each.(*ast.Ident); !ok || name.Name != "_" {
			return false
		}
	}
	return true
}

func (p *planter) statement(statement ast.Stmt) {
	switch s := statement.(type) {
	case nil:
	case *ast.BlockStmt:
		p.list(s.List)
	case *ast.ExprStmt:
		p.expression(s.X)
	case *ast.AssignStmt:
		for _, each := range s.Lhs {
			p.parts(each)
		}
		for _, each := range s.Rhs {
			if len(s.Lhs) == len(s.Rhs) {
				p.emptied(each, "empty-set")
			}
			p.expression(each)
		}
	case *ast.DeclStmt:
		p.parts(s)
	case *ast.DeferStmt:
		p.parts(s.Call)
	case *ast.GoStmt:
		p.parts(s.Call)
	case *ast.IfStmt:
		p.ifStatement(s)
	case *ast.ForStmt:
		p.statement(s.Init)
		p.condition(s.Cond)
		p.statement(s.Post)
		p.list(s.Body.List)
	case *ast.RangeStmt:
		p.expression(s.X)
		p.list(s.Body.List)
	case *ast.ReturnStmt:
		p.returned(s)
	case *ast.SwitchStmt:
		p.switchStatement(s)
	case *ast.TypeSwitchStmt:
		for _, each := range s.Body.List {
			p.list(each.(*ast.CaseClause).Body)
		}
	case *ast.SelectStmt:
		for _, each := range s.Body.List {
			p.list(each.(*ast.CommClause).Body)
		}
	case *ast.LabeledStmt:
		p.statement(s.Stmt)
	}
}

func (p *planter) ifStatement(s *ast.IfStmt) {
	if call, ok := s.Cond.(*ast.CallExpr); ok && p.isTalk(call) {
		return
	}
	p.statement(s.Init)
	if s.Else == nil && p.onlyTalks(s.Body.List) {
		return
	}
	if len(s.Body.List) > 0 && !p.onlyTalks(s.Body.List) {
		made := p.mutant(s.Cond, "body-left-out", "if "+p.text(s.Cond), "if false")
		p.wrap(s.Cond, "Never", "", made)
	}
	p.condition(s.Cond)
	p.list(s.Body.List)
	p.statement(s.Else)
}

func (p *planter) onlyTalks(statements []ast.Stmt) bool {
	for _, each := range statements {
		said, ok := each.(*ast.ExprStmt)
		if !ok || !p.isTalk(said.X) {
			return false
		}
	}
	return true
}

func (p *planter) switchStatement(s *ast.SwitchStmt) {
	p.statement(s.Init)
	if s.Tag != nil {
		p.expression(s.Tag)
	}
	for _, each := range s.Body.List {
		clause := each.(*ast.CaseClause)
		if s.Tag == nil {
			for _, condition := range clause.List {
				p.condition(condition)
			}
		}
		p.list(clause.Body)
	}
}

// --- expressions ---------------------------------------------------------------------------------

// condition negates a condition, and the parts that && and || join.
func (p *planter) condition(node ast.Expr) {
	if node == nil {
		return
	}
	if inner, ok := node.(*ast.ParenExpr); ok {
		p.condition(inner.X)
		return
	}
	joined, ok := node.(*ast.BinaryExpr)
	if ok && (joined.Op == token.LAND || joined.Op == token.LOR) {
		p.joined(joined)
		return
	}
	if p.constant(node) {
		return
	}
	before := p.text(node)
	made := p.mutant(node, "negated", before, negation(before))
	p.wrap(node, "Not", "", made)
	p.expression(node)
}

func negation(text string) string {
	if rest, ok := strings.CutPrefix(text, "!"); ok {
		return rest
	}
	return "!(" + text + ")"
}

func (p *planter) joined(node *ast.BinaryExpr) {
	call, other := "And", "||"
	if node.Op == token.LOR {
		call, other = "Or", "&&"
	}
	left, right := p.text(node.X), p.text(node.Y)
	made := p.mutant(node, "and-or", left+" "+node.Op.String()+" "+right, left+" "+other+" "+right)
	p.insert(node.Pos(), "mutant_."+call+"($ID, ", false, made)
	p.insert(node.End(), ")", true, made)
	p.replace(node.OpPos, 2, ",", made)
	p.insert(node.Y.Pos(), "func() bool { return (", false, made)
	p.insert(node.Y.End(), ") }", true, made)
	p.condition(node.X)
	p.condition(node.Y)
}

var (
	bounds = map[token.Token][2]string{
		token.LSS: {"Less", "<="}, token.LEQ: {"LessEqual", "<"},
		token.GTR: {"Greater", ">="}, token.GEQ: {"GreaterEqual", ">"},
	}
	sums = map[token.Token][2]string{
		token.ADD: {"Add", "-"}, token.SUB: {"Sub", "+"}, token.MUL: {"Mul", "/"}, token.QUO: {"Div", "*"},
	}
)

func (p *planter) constant(node ast.Expr) bool {
	return p.info.Types[node].Value != nil
}

func (p *planter) isNumber(node ast.Expr) bool {
	kind := p.info.TypeOf(node)
	if kind == nil {
		return false
	}
	basic, ok := kind.Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsInteger|types.IsFloat) != 0
}

// expression looks for places in an expression that is no condition.
func (p *planter) expression(node ast.Expr) {
	switch e := node.(type) {
	case nil:
	case *ast.ParenExpr:
		p.expression(e.X)
	case *ast.UnaryExpr:
		p.expression(e.X)
	case *ast.BinaryExpr:
		p.binary(e)
	case *ast.CallExpr:
		p.call(e)
	case *ast.FuncLit:
		signature, _ := p.info.TypeOf(e).(*types.Signature)
		p.body(signature, e.Body)
	default:
		p.parts(node)
	}
}

func (p *planter) binary(e *ast.BinaryExpr) {
	if p.constant(e) {
		return
	}
	if e.Op == token.LAND || e.Op == token.LOR {
		p.joined(e)
		return
	}
	names, isBound := bounds[e.Op]
	kind := "bound"
	if !isBound {
		names, kind = sums[e.Op], "arithmetic"
	}
	var made *Mutant
	if names[0] != "" && p.isNumber(e.X) && p.isNumber(e.Y) {
		left, right := p.text(e.X), p.text(e.Y)
		made = p.mutant(e, kind, left+" "+e.Op.String()+" "+right, left+" "+names[1]+" "+right)
		p.insert(e.Pos(), "mutant_."+names[0]+"($ID, ", false, made)
		p.replace(e.OpPos, len(e.Op.String()), ",", made)
		p.insert(e.End(), ")", true, made)
	}
	p.expression(e.X)
	if p.isNumber(e.Y) && (isBound || e.Op == token.EQL || e.Op == token.NEQ) {
		text := p.text(e.Y)
		one := p.mutant(e.Y, "one-more", p.text(e), p.text(e.X)+" "+e.Op.String()+" "+text+" + 1")
		call := "Plus"
		if p.constant(e.Y) {
			call += "[" + p.typeName(e.X) + "]"
		}
		p.wrap(e.Y, call, "", one)
	}
	p.expression(e.Y)
}

// typeName is how the type of a number is written where it stands; a name of another package is
// written by its basic type, and what then does not compile is dropped.
func (p *planter) typeName(node ast.Expr) string {
	kind := types.Default(p.info.TypeOf(node))
	if named, ok := kind.(*types.Named); ok && named.Obj().Pkg() == p.file.pkg {
		return named.Obj().Name()
	}
	return kind.Underlying().String()
}

func (p *planter) call(e *ast.CallExpr) {
	if p.isTalk(e) {
		return
	}
	p.expression(e.Fun)
	p.swapped(e)
	for _, each := range e.Args {
		p.emptied(each, "empty-set")
		p.expression(each)
	}
}

var word = regexp.MustCompile(`^(append|copy|len|cap|make|new|delete|min|max|clear)$`)

// swapped exchanges two neighbours among a call's arguments, where they are of one type.
func (p *planter) swapped(e *ast.CallExpr) {
	if p.info.Types[e.Fun].IsType() || e.Ellipsis.IsValid() || len(e.Args) < 2 || len(e.Args) > 7 {
		return
	}
	if name, ok := e.Fun.(*ast.Ident); ok && word.MatchString(name.Name) {
		return
	}
	signature, ok := p.info.TypeOf(e.Fun).(*types.Signature)
	if !ok || signature.Variadic() {
		return
	}
	for i := 0; i+1 < len(e.Args); i++ {
		one, two := e.Args[i], e.Args[i+1]
		if p.info.TypeOf(one) == nil || !types.Identical(p.info.TypeOf(one), p.info.TypeOf(two)) || p.text(one) == p.text(two) {
			continue
		}
		name := fmt.Sprintf("Swap%dOf%d", i, len(e.Args))
		p.swaps[name] = true
		before := p.text(one) + ", " + p.text(two)
		made := p.mutant(one, "swapped", before, p.text(two)+", "+p.text(one))
		p.insert(e.Args[0].Pos(), "mutant_."+name+"($ID, ", false, made)
		p.insert(e.Args[len(e.Args)-1].End(), ")", true, made)
		return
	}
}

func (p *planter) isSet(node ast.Expr) bool {
	named, ok := p.info.TypeOf(node).(*types.Named)
	return ok && named.Obj().Name() == "CPUSet"
}

// emptied puts the empty cpuset in the place of a cpuset.
func (p *planter) emptied(node ast.Expr, kind string) {
	if p.newSet == "" || !p.isSet(node) || p.text(node) == p.newSet {
		return
	}
	made := p.mutant(node, kind, p.text(node), p.newSet)
	p.wrap(node, "Other", ", "+p.newSet, made)
}

func (p *planter) returned(s *ast.ReturnStmt) {
	signature := p.results[len(p.results)-1]
	if len(s.Results) != signature.Results().Len() {
		for _, each := range s.Results {
			p.expression(each)
		}
		return
	}
	for i, each := range s.Results {
		p.result(each, signature.Results().At(i).Type())
		p.expression(each)
	}
}

// result replaces one value that a function returns.
func (p *planter) result(node ast.Expr, kind types.Type) {
	before := p.text(node)
	basic, isBasic := kind.Underlying().(*types.Basic)
	switch {
	case kind.String() == "error" && before == "nil":
		made := p.mutant(node, "result-error", "return nil", `return errors.New("planted fault")`)
		p.replace(node.Pos(), len(before), "mutant_.Fail($ID)", made)
	case kind.String() == "error":
		p.wrap(node, "Zero[error]", "", p.mutant(node, "result-nil", "return "+before, "return nil"))
	case before == "nil":
	case p.isSet(node):
		p.emptied(node, "result-empty")
	case isBasic && basic.Info()&types.IsBoolean != 0:
		p.wrap(node, "Not", "", p.mutant(node, "result-flipped", "return "+before, "return "+negation(before)))
	case isBasic && basic.Info()&types.IsInteger != 0:
		p.wrap(node, "Plus", "", p.mutant(node, "result-plus-one", "return "+before, "return "+before+" + 1"))
	default:
		p.wrap(node, "Zero", "", p.mutant(node, "result-zero", "return "+before, "return the zero value"))
	}
}

// parts looks for places in everything that a node is made of.
func (p *planter) parts(node ast.Node) {
	ast.Inspect(node, func(each ast.Node) bool {
		if each == node {
			return true
		}
		switch e := each.(type) {
		case *ast.FuncLit:
			signature, _ := p.info.TypeOf(e).(*types.Signature)
			p.body(signature, e.Body)
			return false
		case *ast.CallExpr:
			p.call(e)
			return false
		case *ast.BinaryExpr:
			p.binary(e)
			return false
		}
		return true
	})
}

// --- what is left alone --------------------------------------------------------------------------

var loggers = regexp.MustCompile(`k8s\.io/klog|go-logr/logr|component-base/metrics/legacyregistry|client-go/tools/record`)

// isTalk says whether a call writes to the log or records an event: no fault there can be seen in
// what a node does.
func (p *planter) isTalk(node ast.Expr) bool {
	call, ok := node.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if name, ok := method.X.(*ast.Ident); ok {
		if imported, ok := p.info.Uses[name].(*types.PkgName); ok {
			return loggers.MatchString(imported.Imported().Path())
		}
	}
	kind := p.info.TypeOf(method.X)
	return kind != nil && loggers.MatchString(kind.String())
}

func isLock(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch method.Sel.Name {
	case "Lock", "Unlock", "RLock", "RUnlock":
		return true
	}
	return false
}

func isPanic(call *ast.CallExpr) bool {
	name, ok := call.Fun.(*ast.Ident)
	return ok && name.Name == "panic"
}
