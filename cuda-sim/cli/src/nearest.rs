//! What a misspelled word means.

/// Returns the word that is most like another, if that is a misspelling of it.
pub fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = given.chars().count().div_ceil(3);
    let near = known.map(|word| (edits(given, word), word));
    near.filter(|(count, _)| *count <= most).min_by_key(|(count, _)| *count).map(|(_, word)| word)
}

/// Returns how many letters must be changed, added or left out.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}
