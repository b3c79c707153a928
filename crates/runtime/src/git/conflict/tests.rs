use super::*;

#[test]
fn a_marker_counts_unless_a_version_has_it() {
    let version = b"Title\n=======\ntext\n<<<<<<< of an example\n".as_slice();
    for (text, has) in [
        (&b"Title\n=======\n<<<<<<< of an example\n"[..], false),
        (b"a <<<<<<< b\n<<<<<<<<\n=====\n>>>>>>>x\n", false),
        (b"<<<<<<< HEAD\n", true),
        (b"text\n>>>>>>> 0123\r\n", true),
        (b"||||||| 0123\n", true),
        (b">>>>>>>", true),
    ] {
        let text_shown = String::from_utf8_lossy(text);
        assert_eq!(has_new_marker(text, &[version, b""]), has, "{text_shown}");
    }
    assert!(has_new_marker(b"a\n=======\nb\n", &[b"a\n", b"b\n"]));
}

#[test]
fn a_side_is_lost_if_none_of_its_words_is_left() {
    let left = |text: &'static str| words(text.as_bytes()).collect::<BTreeSet<_>>();
    let lost = |side: &str, now: &'static str| {
        is_lost(side.as_bytes(), &[b"let x = 1;", b"let x = other(1);"], &left(now))
    };
    assert!(lost("let x = mine(1);", "let x = other(1); // done"));
    assert!(!lost("let x = mine(1);", "let x = other(mine(1));"));
    assert!(!lost("let  x=1 ;", "let x = other(1);"), "it brings no word");
    assert!(lost("let x = größe;", "let x = gr;"), "a word is not cut");
}
