package main

import (
	"cmp"
	"io"
	"slices"
	"strings"
)

// table is rows in columns that are aligned, two spaces in, and fit the screen.
// Where they do not, columns give way by [column]; where that is not enough, the
// text of the last one goes below its row, and then the least ones are left out. Whatever a cell holds, it makes no
// line that looks like another, and no terminal obeys it.
type table struct {
	columns []column
	rows    []row
}

// column says how a column gives way to the width of the screen. Those of the
// least weight do so first, each until it has no more than min columns, and of
// equals the right one; text goes below its row before it leaves the others less than
// twice their min. The zero column never gives way.
type column struct {
	head   string // above it; a table whose columns have none has no such line
	by     how    // cutWrap is for the last column alone
	weight int
	min    int
}

// row is a line of cells, and what is said of it in lines of their own below. It
// may have fewer cells than there are columns: its last one is text that runs on
// then, and widens no column.
type row struct {
	cells []cell
	below []note
}

// cell is a text in its colour.
type cell struct {
	text string
	tone tone
}

// note is a line below a row, four spaces in: cut, wrapped, or whole where it is
// to be typed.
type note struct {
	cell
	by how
}

// cells returns texts as cells without colour.
func cells(texts ...string) []cell {
	all := make([]cell, len(texts))
	for i, text := range texts {
		all[i].text = text
	}
	return all
}

// add appends a row of texts.
func (t *table) add(texts ...string) { t.rows = append(t.rows, row{cells: cells(texts...)}) }

// write prints the table as it fits the screen behind a writer.
func (t *table) write(w io.Writer) error { return emit(w, t.lay(screenOf(w))) }

const (
	tableIndent = 2
	tableGap    = 2
	tableBelow  = 4 // how far in is what stands below a row
	tableLeast  = 4 // columns that one keeps where nothing else helps
)

// lay returns the table's lines as they fit a screen.
func (t *table) lay(s screen) string {
	rows := t.printable()
	widths := t.fit(rows, s.width)
	if last := len(widths) - 1; t.headed() && widths[last] == dropped {
		rows[0].cells[last].text = ""
	}
	var b strings.Builder
	for _, r := range rows {
		t.layRow(&b, s, r, widths)
	}
	return b.String()
}

// printable returns the rows, heads first, with nothing in them that a terminal
// would obey.
func (t *table) printable() []row {
	var rows []row
	if t.headed() {
		var heads row
		for _, c := range t.columns {
			heads.cells = append(heads.cells, cell{c.head, toneAside})
		}
		rows = append(rows, heads)
	}
	for _, r := range t.rows {
		r = row{slices.Clone(r.cells), slices.Clone(r.below)}
		for i := range r.cells {
			r.cells[i].text = visible(r.cells[i].text)
		}
		for i := range r.below {
			r.below[i].text = visible(r.below[i].text)
		}
		rows = append(rows, r)
	}
	return rows
}

func (t *table) headed() bool {
	return slices.ContainsFunc(t.columns, func(c column) bool { return c.head != "" })
}

// dropped is the width of a column that is left out.
const dropped = -1

// fit returns the widths of the columns.
func (t *table) fit(rows []row, width int) []int {
	natural := make([]int, len(t.columns))
	for _, r := range rows {
		for i, c := range r.cells {
			if i < len(r.cells)-1 || i == len(t.columns)-1 {
				natural[i] = max(natural[i], wide(c.text))
			}
		}
	}
	if width == 0 {
		return natural
	}
	widths := slices.Clone(natural)
	for {
		t.shrink(widths, width, comfortable)
		if last := len(widths) - 1; over(widths, width) <= 0 || widths[last] == dropped || t.columns[last].by != cutWrap {
			t.shrink(widths, width, func(c column) int { return max(c.min, tableLeast) })
		}
		if i := t.expendable(natural); over(widths, width) > 0 && i >= 0 {
			natural[i] = dropped
			copy(widths, natural)
			continue
		}
		t.shrink(widths, width, func(column) int { return tableLeast })
		return widths
	}
}

// comfortable returns how narrow a column becomes before text goes below its row to
// leave it that: twice its min, but for text.
func comfortable(c column) int {
	if c.by == cutWrap {
		return max(c.min, tableLeast)
	}
	return max(2*c.min, tableLeast)
}

// expendable returns the column that is left out next where all are as narrow as
// they are to be: the last one's text goes below its row, else it is the one of the
// least weight but one; -1 where there is none.
func (t *table) expendable(widths []int) int {
	if last := len(widths) - 1; last > 0 && t.columns[last].by == cutWrap && widths[last] != dropped {
		return last
	}
	var left []int
	for _, i := range t.order() {
		if widths[i] != dropped && t.columns[i].by != cutNot {
			left = append(left, i)
		}
	}
	if len(left) < 2 {
		return -1
	}
	return left[0]
}

// order returns the columns in the order in which they give way.
func (t *table) order() []int {
	order := make([]int, len(t.columns))
	for i := range order {
		order[i] = len(order) - 1 - i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.columns[a].weight, t.columns[b].weight) })
	return order
}

// shrink takes from the columns, in their order, what the table is too wide, and
// leaves each what it is to have at least.
func (t *table) shrink(widths []int, width int, least func(column) int) {
	for _, i := range t.order() {
		too := over(widths, width)
		switch {
		case too <= 0 || widths[i] == dropped || t.columns[i].by == cutNot:
		case t.columns[i].by == cutDrop:
			widths[i] = dropped
		default:
			widths[i] = max(widths[i]-too, min(widths[i], least(t.columns[i])))
		}
	}
}

// over returns how many columns a table is too wide.
func over(widths []int, width int) int {
	at := offsets(widths)
	return at[len(at)-1] - tableGap - width
}

// offsets returns where each column begins, and where one after the last would. A
// column that is empty or left out takes no room.
func offsets(widths []int) []int {
	at := []int{tableIndent}
	for i, w := range widths {
		if w > 0 {
			w += tableGap
		}
		at = append(at, at[i]+max(w, 0))
	}
	return at
}

// layRow writes a row. Text that runs on goes below where it has next to no room.
func (t *table) layRow(b *strings.Builder, s screen, r row, widths []int) {
	starts, at := offsets(widths), 0
	for i, c := range r.cells {
		if c.text == "" {
			continue
		}
		by, room := t.columns[i].by, widths[i]
		if last := i == len(r.cells)-1; last && (by == cutWrap || i < len(widths)-1) {
			by, room = cutWrap, s.width-starts[i]
			if s.width > 0 && (widths[i] == dropped || room < min(wide(c.text), 2*tableLeast)) {
				r.below = slices.Insert(r.below, 0, note{c, by})
				break
			}
		}
		if widths[i] == dropped {
			continue
		}
		for n, part := range s.give(c.text, room, by) {
			if n > 0 {
				b.WriteString("\n")
				at = 0
			}
			b.WriteString(strings.Repeat(" ", starts[i]-at) + s.paint(part, c.tone))
			at = starts[i] + wide(part)
		}
	}
	b.WriteString("\n")
	for _, n := range r.below {
		t.layNote(b, s, n)
	}
}

func (t *table) layNote(b *strings.Builder, s screen, n note) {
	for _, part := range s.give(n.text, max(s.width-tableBelow, tableLeast), n.by) {
		b.WriteString(strings.Repeat(" ", tableBelow) + s.paint(part, n.tone) + "\n")
	}
}
