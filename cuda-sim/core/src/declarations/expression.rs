//! Numbers of elements: expressions of the parameters and the size of the grid.

use crate::cudasim::Grid;

pub enum Expression {
    Number(i128),
    /// A parameter, by its index.
    Variable(usize),
    Grid(Dimension),
    Binary(u8, Box<Expression>, Box<Expression>),
}

#[derive(Clone, Copy)]
pub enum Dimension {
    Blocks,
    Threads,
    Grid(usize),
    Block(usize),
}

/// Deeper expressions are refused.
const DEPTH: usize = 64;

impl Expression {
    /// Returns the value; 0 for a quotient by 0.
    pub fn value(&self, variable: &impl Fn(usize) -> i128, grid: &Grid) -> i128 {
        match self {
            Expression::Number(number) => *number,
            Expression::Variable(index) => variable(*index),
            Expression::Grid(dimension) => {
                let all = |sizes: &[u32]| sizes.iter().map(|size| i128::from(*size)).product();
                match *dimension {
                    Dimension::Blocks => all(&grid.grid),
                    Dimension::Threads => all(&grid.block),
                    Dimension::Grid(d) => grid.grid[d].into(),
                    Dimension::Block(d) => grid.block[d].into(),
                }
            }
            Expression::Binary(operator, left, right) => {
                let (left, right) = (left.value(variable, grid), right.value(variable, grid));
                match operator {
                    b'+' => left.saturating_add(right),
                    b'-' => left.saturating_sub(right),
                    b'*' => left.saturating_mul(right),
                    b'/' => left.checked_div(right).unwrap_or(0),
                    _ => left.checked_rem(right).unwrap_or(0),
                }
            }
        }
    }
}

/// Parses an expression in which `variable` returns the index of a parameter, or why it is none.
pub fn parse(
    text: &str,
    variable: &impl Fn(&str) -> Result<Option<usize>, String>,
) -> Result<Expression, String> {
    let mut parser = Parser { rest: text, variable, depth: 0 };
    let found = parser.sum()?;
    match parser.next() {
        "" => Ok(found),
        word => Err(format!("found {word}, expected an operator")),
    }
}

struct Parser<'a, F> {
    rest: &'a str,
    variable: &'a F,
    depth: usize,
}

impl<'a, F: Fn(&str) -> Result<Option<usize>, String>> Parser<'a, F> {
    /// Returns the next word, number or sign without taking it; empty at the end.
    fn next(&self) -> &'a str {
        let rest = self.rest.trim_start();
        let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let length = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let sign = rest.chars().next().map_or(0, char::len_utf8);
        &rest[..length.max(sign)]
    }

    fn take(&mut self) -> &'a str {
        let word = self.next();
        self.rest = &self.rest.trim_start()[word.len()..];
        word
    }

    fn sum(&mut self) -> Result<Expression, String> {
        self.operators(&["+", "-"], Self::product)
    }

    fn product(&mut self) -> Result<Expression, String> {
        self.operators(&["*", "/", "%"], Self::operand)
    }

    fn operators(
        &mut self,
        operators: &[&str],
        operand: fn(&mut Self) -> Result<Expression, String>,
    ) -> Result<Expression, String> {
        let mut left = operand(self)?;
        let mut length = 0;
        while operators.contains(&self.next()) {
            length += 1;
            if length > DEPTH {
                return Err("the expression is too long".to_owned());
            }
            let operator = self.take().as_bytes()[0];
            left = Expression::Binary(operator, Box::new(left), Box::new(operand(self)?));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("the expression is too deep".to_owned());
        }
        let word = self.take();
        let found = match word {
            "(" => {
                let inner = self.sum()?;
                if self.take() != ")" {
                    return Err("expected ) in the brackets".to_owned());
                }
                inner
            }
            "-" => {
                let zero = Box::new(Expression::Number(0));
                Expression::Binary(b'-', zero, Box::new(self.operand()?))
            }
            "" => return Err("expected a number".to_owned()),
            _ => self.word(word)?,
        };
        self.depth -= 1;
        Ok(found)
    }

    fn word(&self, word: &str) -> Result<Expression, String> {
        if let Ok(number) = word.parse::<u64>() {
            return Ok(Expression::Number(number.into()));
        }
        if let Some(index) = (self.variable)(word)? {
            return Ok(Expression::Variable(index));
        }
        let d = |name: &str| match name {
            "x" => Some(0),
            "y" => Some(1),
            "z" => Some(2),
            _ => None,
        };
        let dimension = match word.split_once('.') {
            None if word == "blocks" => Some(Dimension::Blocks),
            None if word == "threads" => Some(Dimension::Threads),
            Some(("gridDim", name)) => d(name).map(Dimension::Grid),
            Some(("blockDim", name)) => d(name).map(Dimension::Block),
            _ => None,
        };
        dimension.map(Expression::Grid).ok_or_else(|| {
            format!(
                "found {word}, expected a number, a parameter or blocks, threads, gridDim.x, \
                 blockDim.x"
            )
        })
    }
}
