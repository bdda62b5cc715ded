package layering

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gpc-engine/gpc/internal/testing/pages"
)

// Ceilings of the product's Go without tests and generated files. They only go down.
const (
	emptyNames  = 380 // identifiers that say nothing of what they hold
	longTuples  = 29  // assignments to four and more variables
	longComment = 912 // sentences of doc comments with more than 25 words
	ownPhrases  = 462 // places in comments with a phrase that the dictionary replaces
)

// Bounds of comments, those of the pages for users.
const (
	wordsASentence = 20 // in the mean of a package
	longest        = 25 // words of one sentence
)

var languageOf = flag.String("language", "", "folder whose names, tuples and means of comments the test of the language lists")

// empty are prepositions, auxiliaries, participles and fillers: a name says what a thing is.
var empty = words(`of at by to in on from with without after before beside behind between within until along through over under above
below against across around beyond near into onto since till toward towards than as via upon off about inside outside
own what which who whom whose how why where when there here then thus so such may must can could should would might shall
did does do has had have having is was were be been being both same others each every some again anew apart aside away alone
together once twice far yet still only just even also too not none enough anything nothing something
known kept held made told lost given taken seen found left gone done said asked wanted meant begun began shown drawn tried used
spent driven chosen broken grown brought got took came went gave ended moved changed turned stayed stepped reached gained acted
answered named called needed put lent laden untold written tightened decided
resting lasting coming going standing waiting leaving giving keeping holding taking making`)

// pairs are the two ends of one thing: both names stand in one declaration.
var pairs = map[string]string{"from": "to", "to": "from", "in": "out", "left": "right", "before": "after", "after": "before", "above": "below", "below": "above", "done": "total"}

// phrase is one that the dictionary replaces, in comments.
var phrase = regexp.MustCompile(`(?i)\b(beside|behind|so many|as many|(?:keep|keeps|kept) off|nobody|laden|lasting|resting)\b`)

func words(text string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(text) {
		all[w] = true
	}
	return all
}

// language is the count of one package.
type language struct {
	names    map[string]int // by word
	tuples   int
	phrases  int
	long     int      // sentences of the doc comments with more than 25 words
	comments []string // those sentences
}

// total is the number of empty names.
func (l *language) total() (n int) {
	for _, count := range l.names {
		n += count
	}
	return n
}

// add adds the counts of another package.
func (l *language) add(m *language) {
	for w, n := range m.names {
		l.names[w] += n
	}
	l.tuples += m.tuples
	l.phrases += m.phrases
	l.long += m.long
	l.comments = append(l.comments, m.comments...)
}

// lower is a name with a small first letter: an exported field counts as its word.
func lower(name string) string {
	r, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToLower(r)) + name[size:]
}

// declared are the identifiers that a declaration declares, without exported functions, types and constants.
func declared(d ast.Decl) (all []*ast.Ident) {
	add := func(exported bool, list ...ast.Expr) {
		for _, e := range list {
			if id, is := e.(*ast.Ident); is && (exported || !id.IsExported()) {
				all = append(all, id)
			}
		}
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(false, n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(false, n.Key, n.Value)
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				add(false, id)
			}
		case *ast.TypeSpec:
			add(false, n.Name)
		case *ast.FuncDecl:
			add(false, n.Name)
		case *ast.InterfaceType:
			for _, f := range n.Methods.List {
				if len(f.Names) > 0 && f.Names[0].IsExported() {
					f.Names = nil
				}
			}
		case *ast.Field:
			for _, id := range n.Names {
				add(true, id)
			}
		}
		return true
	})
	return all
}

// docs calls f with each comment above a declaration of a file.
func docs(file *ast.File, f func(doc *ast.CommentGroup)) {
	ast.Inspect(file, func(n ast.Node) bool {
		var doc *ast.CommentGroup
		switch n := n.(type) {
		case *ast.File:
			doc = n.Doc
		case *ast.FuncDecl:
			doc = n.Doc
		case *ast.GenDecl:
			doc = n.Doc
		case *ast.TypeSpec:
			doc = n.Doc
		case *ast.ValueSpec:
			doc = n.Doc
		case *ast.Field:
			doc = n.Doc
		}
		if doc != nil {
			f(doc)
		}
		return true
	})
}

// count adds a file's counts; list hears of each name and tuple.
func (l *language) count(f *ast.File, list func(pos token.Pos, text string)) {
	for _, d := range f.Decls {
		ids := declared(d)
		names := map[string]bool{}
		for _, id := range ids {
			names[lower(id.Name)] = true
		}
		for _, id := range ids {
			if w := lower(id.Name); empty[w] && !names[pairs[w]] {
				l.names[w]++
				list(id.Pos(), id.Name)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if a, is := n.(*ast.AssignStmt); is && len(a.Lhs) >= 4 {
			l.tuples++
			list(a.Pos(), fmt.Sprintf("tuple of %d", len(a.Lhs)))
		}
		return true
	})
	docs(f, func(doc *ast.CommentGroup) {
		for _, sentence := range pages.Sentences(doc.Text()) {
			l.comments = append(l.comments, sentence)
			if n := len(strings.Fields(sentence)); n > longest {
				l.long++
				list(doc.Pos(), fmt.Sprintf("sentence of %d words: %s", n, sentence))
			}
		}
	})
	for _, comment := range f.Comments {
		for _, found := range phrase.FindAllString(comment.Text(), -1) {
			l.phrases++
			list(comment.Pos(), "comment with "+found)
		}
	}
}

// excluded are folders that are no product: the laboratory, what tests use, generators and data.
var excluded = []string{"lab", "testing", "testdata", "_asm", "node_modules"}

// languages counts the product by packages.
func languages(t *testing.T, root string, list func(p token.Position, text string)) map[string]*language {
	t.Helper()
	all := map[string]*language{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != root && (slices.Contains(excluded, e.Name()) || strings.HasPrefix(e.Name(), ".")):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(f) {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if all[dir] == nil {
			all[dir] = &language{names: map[string]int{}}
		}
		all[dir].count(f, func(pos token.Pos, text string) { list(files.Position(pos), text) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Names are nouns and verbs, tuples are short, and comments are as plain as the pages. -v lists the counts by package,
// -args -language=closedloop every place in a folder.
func TestLanguageIsTheFields(t *testing.T) {
	root := filepath.Join("..", "..")
	all := languages(t, root, func(p token.Position, text string) {
		if path, _ := filepath.Rel(root, p.Filename); *languageOf != "" && strings.HasPrefix(path, *languageOf) {
			t.Logf("%s:%d: %s", path, p.Line, text)
		}
	})
	sum := &language{names: map[string]int{}}
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		l := all[dir]
		m := pages.Mean(l.comments)
		sum.add(l)
		if m > wordsASentence {
			t.Errorf("the doc comments of %s have %.1f words a sentence, more than %d", dir, m, wordsASentence)
		}
		t.Logf("%-36s %4d names %3d tuples %3d phrases %3d long sentences %5.1f words a sentence %s", dir, l.total(), l.tuples, l.phrases, l.long, m, mostFrequent(l.names))
	}
	t.Logf("%d packages, %.1f words a sentence", len(all), pages.Mean(sum.comments))
	if len(all) < 50 {
		t.Errorf("%d packages: the product was not found", len(all))
	}
	for _, c := range []struct {
		count, ceiling int
		kind           string
	}{
		{sum.total(), emptyNames, "identifiers that are prepositions, participles or fillers"},
		{sum.tuples, longTuples, "assignments to four and more variables"},
		{sum.phrases, ownPhrases, "phrases in comments that the dictionary replaces"},
		{sum.long, longComment, "sentences of doc comments with more than 25 words"},
	} {
		t.Logf("%d %s, at most %d", c.count, c.kind, c.ceiling)
		if c.count > c.ceiling {
			t.Errorf("%d %s, at most %d: see them with go test ./internal/layering -run Language -v -args -language=FOLDER; the dictionary is in CONTRIBUTING.md", c.count, c.kind, c.ceiling)
		}
	}
}

// mostFrequent are the five words of a package that stand in it most often.
func mostFrequent(names map[string]int) string {
	order := slices.SortedFunc(maps.Keys(names), func(a, b string) int { return cmp.Or(names[b]-names[a], strings.Compare(a, b)) })
	var text []string
	for _, w := range order[:min(5, len(order))] {
		text = append(text, fmt.Sprintf("%s %d", w, names[w]))
	}
	return strings.Join(text, ", ")
}
