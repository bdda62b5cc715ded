package matpower

import (
	"bytes"
	"strconv"
)

// tokenKind tells numbers, names and texts from punctuation, whose kind is its
// own first byte.
type tokenKind byte

const (
	tokenEnd    tokenKind = 0
	tokenLine   tokenKind = '\n' // end of a line
	tokenNumber tokenKind = '0'
	tokenName   tokenKind = 'a'
	tokenText   tokenKind = '"'
	// Elementwise operators have kinds of their own; the rest of the punctuation is
	// its character.
	tokenTimes tokenKind = 'T' // .*
	tokenOver  tokenKind = 'O' // ./
	tokenPower tokenKind = 'P' // .^
	// Comparisons of two characters; && and || are & and |.
	tokenEqual   tokenKind = 'E' // ==
	tokenUnequal tokenKind = 'U' // ~= or !=
	tokenAtMost  tokenKind = 'L' // <=
	tokenAtLeast tokenKind = 'G' // >=
)

var pairs = map[string]tokenKind{"==": tokenEqual, "~=": tokenUnequal, "!=": tokenUnequal, "<=": tokenAtMost, ">=": tokenAtLeast, "&&": '&', "||": '|'}

type token struct {
	kind        tokenKind
	text        string
	number      float64
	line        int
	spaceBefore bool
	spaceAfter  bool
}

// describe is the token as an error message shows it.
func (t token) describe() string {
	switch t.kind {
	case tokenEnd:
		return "the end of the file"
	case tokenLine:
		return "the end of the line"
	case tokenText:
		return "a text"
	}
	return "\"" + t.text + "\""
}

// scanner splits MATLAB source into tokens. Comments and continuations are gone
// from what it returns.
type scanner struct {
	src      []byte
	pos      int
	line     int
	nesting  []byte // open brackets, on which the meaning of quotes and blanks depends
	previous tokenKind
}

func newScanner(src []byte) *scanner {
	return &scanner{src: bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")), line: 1, previous: tokenLine}
}

func blank(c byte) bool  { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }
func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }

func (s *scanner) peek(offset int) byte {
	if s.pos+offset < len(s.src) {
		return s.src[s.pos+offset]
	}
	return 0
}

// next returns the next token, or the fault at s.line.
func (s *scanner) next() (token, string) {
	space, reason := s.skipBlanks()
	if reason != "" {
		return token{}, reason
	}
	t := token{line: s.line, spaceBefore: space}
	start := s.pos
	c := s.peek(0)
	switch {
	case s.pos >= len(s.src):
		return t, ""
	case c == '\n':
		s.pos++
		s.line++
		t.kind = tokenLine
	case digit(c) || c == '.' && digit(s.peek(1)):
		if reason := s.number(&t); reason != "" {
			return t, reason
		}
	case letter(c):
		for letter(s.peek(0)) || digit(s.peek(0)) {
			s.pos++
		}
		t.kind = tokenName
	case c == '"' || c == '\'' && !s.transpose(space):
		if reason := s.quoted(&t, c); reason != "" {
			return t, reason
		}
	case c == '.' && (s.peek(1) == '*' || s.peek(1) == '/' || s.peek(1) == '^'):
		t.kind = map[byte]tokenKind{'*': tokenTimes, '/': tokenOver, '^': tokenPower}[s.peek(1)]
		s.pos += 2
	case pairs[string(s.src[s.pos:min(s.pos+2, len(s.src))])] != 0:
		t.kind = pairs[string(s.src[s.pos:s.pos+2])]
		s.pos += 2
	case bytes.IndexByte([]byte("=()[]{},;+-*/^.:'@~<>&|!"), c) >= 0:
		s.pos++
		t.kind = tokenKind(c)
		if reason := s.nest(c); reason != "" {
			return t, reason
		}
	default:
		return t, "unexpected character " + strconv.QuoteToASCII(string(s.src[s.pos:min(s.pos+1, len(s.src))])) + ": want the text of a MATPOWER case file"
	}
	if t.kind != tokenText {
		t.text = string(s.src[start:s.pos])
	}
	t.spaceAfter = s.pos >= len(s.src) || blank(s.peek(0)) || s.peek(0) == '\n'
	s.previous = t.kind
	return t, ""
}

// skipBlanks passes blanks, comments and continuations, and says whether there
// were any.
func (s *scanner) skipBlanks() (bool, string) {
	start := s.pos
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		switch {
		case blank(c):
			s.pos++
		case c == '%' || c == '#':
			if s.opensBlock() {
				if reason := s.blockComment(); reason != "" {
					return true, reason
				}
				continue
			}
			s.skipLine()
		case c == '.' && s.peek(1) == '.' && s.peek(2) == '.':
			s.skipLine()
			if s.pos < len(s.src) {
				s.pos++
				s.line++
			}
		default:
			return s.pos > start, ""
		}
	}
	return s.pos > start, ""
}

// skipLine goes to the newline that ends the line.
func (s *scanner) skipLine() {
	if k := bytes.IndexByte(s.src[s.pos:], '\n'); k >= 0 {
		s.pos += k
	} else {
		s.pos = len(s.src)
	}
}

// lineText is the whole line that contains the position, without blanks at its
// ends.
func (s *scanner) lineText() []byte {
	from := bytes.LastIndexByte(s.src[:s.pos], '\n') + 1
	to := len(s.src)
	if k := bytes.IndexByte(s.src[s.pos:], '\n'); k >= 0 {
		to = s.pos + k
	}
	return bytes.TrimSpace(s.src[from:to])
}

func marks(line []byte, brace byte) bool {
	return len(line) == 2 && (line[0] == '%' || line[0] == '#') && line[1] == brace
}

// opensBlock says whether a block comment begins here: %{ alone on its line.
func (s *scanner) opensBlock() bool { return s.peek(1) == '{' && marks(s.lineText(), '{') }

// blockComment passes the comment up to its %}, nested ones included.
func (s *scanner) blockComment() string {
	opened, depth := s.line, 0
	for {
		switch line := s.lineText(); {
		case marks(line, '{'):
			depth++
		case marks(line, '}'):
			depth--
		}
		s.skipLine()
		if depth == 0 {
			return ""
		}
		if s.pos >= len(s.src) {
			s.line = opened
			return "the block comment %{ opened here has no %}"
		}
		s.pos++
		s.line++
	}
}

// transpose says whether a quote here is an operator rather than the beginning
// of a text.
func (s *scanner) transpose(space bool) bool {
	switch s.previous {
	case tokenNumber, tokenName, ')', ']', '}', '\'':
	default:
		return false
	}
	inMatrix := len(s.nesting) > 0 && s.nesting[len(s.nesting)-1] != '('
	return !space || !inMatrix
}

// nest keeps the open brackets.
func (s *scanner) nest(c byte) string {
	switch c {
	case '(', '[', '{':
		if len(s.nesting) == maxNesting {
			return "brackets are nested more than " + strconv.Itoa(maxNesting) + " deep"
		}
		s.nesting = append(s.nesting, c)
	case ')', ']', '}':
		open := map[byte]byte{')': '(', ']': '[', '}': '{'}[c]
		if len(s.nesting) == 0 || s.nesting[len(s.nesting)-1] != open {
			return "\"" + string(c) + "\" closes nothing"
		}
		s.nesting = s.nesting[:len(s.nesting)-1]
	}
	return ""
}

// number reads a decimal number; MATLAB writes exponents with e, E, d or D.
func (s *scanner) number(t *token) string {
	start := s.pos
	for digit(s.peek(0)) {
		s.pos++
	}
	// "1./x" is a division by elements, "1...": a continuation.
	if s.peek(0) == '.' && s.peek(1) != '*' && s.peek(1) != '/' && s.peek(1) != '^' && s.peek(1) != '.' {
		s.pos++
		for digit(s.peek(0)) {
			s.pos++
		}
	}
	text := s.src[start:s.pos]
	if e := s.peek(0) | 0x20; e == 'e' || e == 'd' {
		k := 1
		if s.peek(k) == '+' || s.peek(k) == '-' {
			k++
		}
		if digit(s.peek(k)) {
			for digit(s.peek(k)) {
				k++
			}
			text = append(append([]byte(nil), text...), 'e')
			text = append(text, s.src[s.pos+1:s.pos+k]...)
			s.pos += k
		}
	}
	if letter(s.peek(0)) || s.peek(0) == '.' && digit(s.peek(1)) {
		end := s.pos
		for letter(s.peek(end-s.pos)) || digit(s.peek(end-s.pos)) || s.peek(end-s.pos) == '.' {
			end++
		}
		return "\"" + string(s.src[start:end]) + "\" is not a number"
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return string(text) + " is outside the range of a float64"
	}
	t.kind, t.number = tokenNumber, v
	return ""
}

// quoted reads a text up to its closing quote; a doubled quote is one quote.
func (s *scanner) quoted(t *token, quote byte) string {
	var text []byte
	for s.pos++; s.pos < len(s.src) && s.src[s.pos] != '\n'; s.pos++ {
		if s.src[s.pos] == quote {
			if s.peek(1) != quote {
				s.pos++
				t.kind, t.text = tokenText, string(text)
				return ""
			}
			s.pos++
		}
		text = append(text, s.src[s.pos])
	}
	return "the text has no closing quote on its line"
}
