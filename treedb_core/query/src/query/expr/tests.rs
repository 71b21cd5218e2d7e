//! Each case is a document, an expression and the expected result, all as JSON.

use super::*;
use crate::doc::Doc;
use crate::doc::json::{from_json, value_from_json};
use crate::error::ErrorCode;

const NOW: i64 = 1_700_000_000_000;

fn eval_at(doc: &str, expr: &str) -> Result<String> {
    let doc = from_json(doc).unwrap();
    let value = value_from_json(expr).unwrap();
    let names = Names::new(vec!["g".to_owned()]);
    let expr = Expr::parse(value.value(), &names)?;
    let values = vec![Some(OwnedValue::from_value(Value::Int32(42)))];
    let globals = Globals { now: NOW, values, ..Globals::default() };
    let arena = Arena::new();
    let found = expr.eval(&mut Scope::new(Doc::from(&doc), &globals, &arena))?;
    Ok(match found {
        None => "missing".to_owned(),
        Some(value) => {
            let mut out = String::new();
            let owned = OwnedValue::from_value(value);
            crate::doc::json::write_value(&owned.element().unwrap(), &mut out);
            out
        }
    })
}

/// Checks pairs of expression and expected result for the document `doc`.
fn check(doc: &str, cases: &[(&str, &str)]) {
    for (expr, expected) in cases {
        match eval_at(doc, expr) {
            Ok(found) => assert_eq!(&found, expected, "{expr}"),
            Err(error) => panic!("{expr}: {error}"),
        }
    }
}

fn code(expr: &str) -> ErrorCode {
    match eval_at(r#"{"s":"x","n":5,"a":[1,2],"z":0}"#, expr) {
        Ok(found) => panic!("{expr} gave {found}"),
        Err(error) => error.code,
    }
}

#[test]
fn paths_variables_and_literals_are_evaluated() {
    check(
        r#"{"a":{"b":[{"c":1},{"c":2},5,{"d":1}],"e":7},"n":null}"#,
        &[
            (r#""$a.e""#, "7"),
            (r#""$a.b.c""#, "[1,2]"),
            (r#""$a.x""#, "missing"),
            (r#""$n""#, "null"),
            (r#""$$ROOT.a.e""#, "7"),
            (r#""$$CURRENT.a.e""#, "7"),
            (r#""$$REMOVE""#, "missing"),
            (r#""$$g""#, "42"),
            (r#"{"$literal":"$a"}"#, r#""$a""#),
            (r#"{"x":"$a.e","y":"$a.x"}"#, r#"{"x":7}"#),
            (r#"["$a.e","$a.x"]"#, "[7,null]"),
            (r#"{"$let":{"vars":{"v":"$a"},"in":{"$add":["$$v.e",1]}}}"#, "8"),
            (r#"{"$let":{"vars":{"CURRENT":"$a"},"in":"$e"}}"#, "7"),
            (r#"{"$toLong":"$$NOW"}"#, "1700000000000"),
        ],
    );
    for (expr, expected) in [
        (r#""$$nobody""#, ErrorCode::Location17276),
        (r#"{"$nonsense":1}"#, ErrorCode::InvalidPipelineOperator),
        (r#"{"$function":{}}"#, ErrorCode::NotImplemented),
        (r#"{"$add":[1],"b":1}"#, ErrorCode::Location15983),
        (r#"{"$subtract":[1]}"#, ErrorCode::Location16020),
        (r#""$a..b""#, ErrorCode::Location15998),
    ] {
        assert_eq!(code(expr), expected, "{expr}");
    }
}

#[test]
fn arithmetic_has_the_widest_type_and_widens_on_overflow() {
    check(
        r#"{"i":7,"l":{"$numberLong":"9000000000"},"d":2.5,"m":{"$numberDecimal":"0.10"},"n":null,"t":{"$date":"2020-01-01T00:00:00Z"}}"#,
        &[
            (r#"{"$add":["$i",1]}"#, "8"),
            (r#"{"$add":["$i",2147483647]}"#, "2147483654"),
            (r#"{"$add":["$l","$i"]}"#, "9000000007"),
            (r#"{"$add":["$i","$d"]}"#, "9.5"),
            (r#"{"$add":["$m","$i"]}"#, r#"{"$numberDecimal":"7.10"}"#),
            (r#"{"$multiply":["$m","$m"]}"#, r#"{"$numberDecimal":"0.0100"}"#),
            (r#"{"$divide":["$m",3]}"#, r#"{"$numberDecimal":"0.03333333333333333333333333333333333"}"#),
            (r#"{"$add":["$i","$n"]}"#, "null"),
            (r#"{"$add":["$t",1000]}"#, r#"{"$date":"2020-01-01T00:00:01Z"}"#),
            (r#"{"$subtract":["$t","$t"]}"#, "0"),
            (r#"{"$multiply":[9223372036854775807,2]}"#, "1.8446744073709552e+19"),
            (r#"{"$divide":[6,4]}"#, "1.5"),
            (r#"{"$mod":[-7,3]}"#, "-1"),
            (r#"{"$mod":[7.5,2]}"#, "1.5"),
            (r#"{"$abs":-5}"#, "5"),
            (r#"{"$ceil":2.1}"#, "3.0"),
            (r#"{"$floor":-2.1}"#, "-3.0"),
            (r#"{"$round":[2.5]}"#, "2.0"),
            (r#"{"$round":[1234.5678,2]}"#, "1234.57"),
            (r#"{"$round":[1250,-2]}"#, "1200"),
            (r#"{"$trunc":[1299,-2]}"#, "1200"),
            (r#"{"$pow":[2,10]}"#, "1024"),
            (r#"{"$acosh":1}"#, "0.0"),
            (r#"{"$asinh":0}"#, "0.0"),
            (r#"{"$lt":[{"$atanh":-1},-1000]}"#, "true"),
            (r#"{"$pow":[2,-1]}"#, "0.5"),
            (r#"{"$sqrt":25}"#, "5.0"),
            (r#"{"$log10":1000}"#, "3.0"),
            (r#"{"$ln":1}"#, "0.0"),
            (r#"{"$exp":0}"#, "1.0"),
            (r#"{"$bitXor":[5,3]}"#, "6"),
            (r#"{"$sum":[1,2,"x"]}"#, "3"),
            (r#"{"$avg":[1,2]}"#, "1.5"),
            (r#"{"$max":[1,null,3]}"#, "3"),
        ],
    );
    assert_eq!(code(r#"{"$divide":["$n","$z"]}"#), ErrorCode::BadValue);
    assert_eq!(code(r#"{"$mod":["$n","$z"]}"#), ErrorCode::Location16610);
    for expr in [r#"{"$acos":"$n"}"#, r#"{"$acosh":"$z"}"#, r#"{"$atanh":"$n"}"#, r#"{"$sin":{"$atanh":1}}"#]
    {
        assert_eq!(code(expr), ErrorCode::Location50989, "{expr}");
    }
    assert_eq!(code(r#"{"$add":["$s",1]}"#), ErrorCode::TypeMismatch);
}

#[test]
fn conditions_and_comparisons_distinguish_missing_from_null() {
    check(
        r#"{"a":5,"n":null,"s":"x","f":false}"#,
        &[
            (r#"{"$eq":["$a",5.0]}"#, "true"),
            (r#"{"$eq":["$missing",null]}"#, "false"),
            (r#"{"$lt":["$missing",null]}"#, "true"),
            (r#"{"$gt":["$s","$a"]}"#, "true"),
            (r#"{"$cmp":[1,2]}"#, "-1"),
            (r#"{"$and":["$a","$s"]}"#, "true"),
            (r#"{"$and":["$a","$f"]}"#, "false"),
            (r#"{"$or":["$f","$n"]}"#, "false"),
            (r#"{"$not":["$n"]}"#, "true"),
            (r#"{"$cond":["$f",1,2]}"#, "2"),
            (r#"{"$cond":{"if":"$a","then":1,"else":2}}"#, "1"),
            (r#"{"$ifNull":["$n","$missing",7]}"#, "7"),
            (r#"{"$switch":{"branches":[{"case":"$f","then":1},{"case":"$a","then":2}],"default":3}}"#, "2"),
            (r#"{"$switch":{"branches":[{"case":"$f","then":1}],"default":3}}"#, "3"),
            (r#"{"$type":"$missing"}"#, r#""missing""#),
            (r#"{"$type":"$a"}"#, r#""int""#),
            (r#"{"$isNumber":"$a"}"#, "true"),
            (r#"{"$in":["$a",[1,5]]}"#, "true"),
        ],
    );
}

#[test]
fn string_operators_work_by_bytes_and_by_code_points() {
    check(
        r#"{"s":"  Grüße, Welt ","n":null}"#,
        &[
            (r#"{"$concat":["a","b"]}"#, r#""ab""#),
            (r#"{"$concat":["a","$n"]}"#, "null"),
            (r#"{"$trim":{"input":"$s"}}"#, r#""Grüße, Welt""#),
            (r#"{"$ltrim":{"input":"xxa","chars":"x"}}"#, r#""a""#),
            (r#"{"$toUpper":"abc"}"#, r#""ABC""#),
            (r#"{"$toLower":"$n"}"#, r#""""#),
            (r#"{"$strLenCP":"Grüße"}"#, "5"),
            (r#"{"$strLenBytes":"Grüße"}"#, "7"),
            (r#"{"$substrCP":["Grüße",2,2]}"#, r#""üß""#),
            (r#"{"$substrBytes":["abcde",1,-1]}"#, r#""bcde""#),
            (r#"{"$indexOfCP":["Grüße","e"]}"#, "4"),
            (r#"{"$indexOfBytes":["Grüße","e"]}"#, "6"),
            (r#"{"$indexOfCP":["abc","z"]}"#, "-1"),
            (r#"{"$split":["a,b,,c",","]}"#, r#"["a","b","","c"]"#),
            (r#"{"$replaceOne":{"input":"aaa","find":"a","replacement":"b"}}"#, r#""baa""#),
            (r#"{"$replaceAll":{"input":"aaa","find":"a","replacement":"b"}}"#, r#""bbb""#),
            (r#"{"$strcasecmp":["Ab","aB"]}"#, "0"),
            (r#"{"$regexMatch":{"input":"Film 7","regex":"^film","options":"i"}}"#, "true"),
            (
                r#"{"$regexFind":{"input":"äb12","regex":"b(\\d)(x)?"}}"#,
                r#"{"match":"b1","idx":1,"captures":["1",null]}"#,
            ),
            (r#"{"$size":{"$regexFindAll":{"input":"a1b22","regex":"\\d+"}}}"#, "2"),
            (r#"{"$regexFind":{"input":"$n","regex":"x"}}"#, "null"),
        ],
    );
    assert_eq!(code(r#"{"$substrBytes":["ü",1,1]}"#), ErrorCode::Location28656);
    assert_eq!(code(r#"{"$regexMatch":{"input":"a","regex":"(?=a"}}"#), ErrorCode::Location51111);
    let endless =
        format!(r#"{{"$regexFind":{{"input":"{}","regex":"^((a+)\\2?)+(?!a)[bd]"}}}}"#, "a".repeat(40));
    assert_eq!(code(&endless), ErrorCode::Location51156);
}

#[test]
fn array_and_set_operators_have_mongodbs_results() {
    check(
        r#"{"a":[3,1,2],"e":[],"o":[{"x":2},{"x":1}],"n":null}"#,
        &[
            (r#"{"$arrayElemAt":["$a",-1]}"#, "2"),
            (r#"{"$arrayElemAt":["$a",9]}"#, "missing"),
            (r#"{"$first":"$a"}"#, "3"),
            (r#"{"$last":"$e"}"#, "missing"),
            (r#"{"$concatArrays":["$a",[9]]}"#, "[3,1,2,9]"),
            (r#"{"$filter":{"input":"$a","as":"v","cond":{"$gt":["$$v",1]}}}"#, "[3,2]"),
            (r#"{"$filter":{"input":"$a","cond":true,"limit":1}}"#, "[3]"),
            (r#"{"$map":{"input":"$a","in":{"$multiply":["$$this",2]}}}"#, "[6,2,4]"),
            (r#"{"$map":{"input":"$n","in":1}}"#, "null"),
            (r#"{"$reduce":{"input":"$a","initialValue":0,"in":{"$add":["$$value","$$this"]}}}"#, "6"),
            (r#"{"$size":"$e"}"#, "0"),
            (r#"{"$slice":["$a",2]}"#, "[3,1]"),
            (r#"{"$slice":["$a",-2]}"#, "[1,2]"),
            (r#"{"$slice":["$a",1,1]}"#, "[1]"),
            (r#"{"$indexOfArray":["$a",2]}"#, "2"),
            (r#"{"$range":[0,10,4]}"#, "[0,4,8]"),
            (r#"{"$range":[3,0,-1]}"#, "[3,2,1]"),
            (r#"{"$reverseArray":"$a"}"#, "[2,1,3]"),
            (r#"{"$sortArray":{"input":"$a","sortBy":-1}}"#, "[3,2,1]"),
            (r#"{"$sortArray":{"input":"$o","sortBy":{"x":1}}}"#, r#"[{"x":1},{"x":2}]"#),
            (
                r#"{"$zip":{"inputs":["$a",["x"]],"useLongestLength":true,"defaults":[0,"d"]}}"#,
                r#"[[3,"x"],[1,"d"],[2,"d"]]"#,
            ),
            (r#"{"$maxN":{"input":"$a","n":2}}"#, "[3,2]"),
            (r#"{"$lastN":{"input":"$a","n":2}}"#, "[1,2]"),
            (r#"{"$objectToArray":{"k":1}}"#, r#"[{"k":"k","v":1}]"#),
            (r#"{"$arrayToObject":[[["a",1],["b",2]]]}"#, r#"{"a":1,"b":2}"#),
            (r#"{"$setUnion":["$a",[1,4]]}"#, "[3,1,2,4]"),
            (r#"{"$setIntersection":["$a",[2,3]]}"#, "[3,2]"),
            (r#"{"$setDifference":["$a",[1]]}"#, "[3,2]"),
            (r#"{"$setEquals":["$a",[1,2,3,3]]}"#, "true"),
            (r#"{"$setIsSubset":[[1],"$a"]}"#, "true"),
            (r#"{"$allElementsTrue":["$a"]}"#, "true"),
            (r#"{"$stdDevPop":[2,4,4,4,5,5,7,9]}"#, "2.0"),
            (r#"{"$percentile":{"input":[1,2,3,4],"p":[0.5,1],"method":"approximate"}}"#, "[2.0,4.0]"),
            (r#"{"$median":{"input":"$a","method":"approximate"}}"#, "2.0"),
        ],
    );
    assert_eq!(code(r#"{"$size":"$n"}"#), ErrorCode::Location17124);
    assert_eq!(code(r#"{"$range":[0,2147483647,1]}"#), ErrorCode::ExceededMemoryLimit);
}

#[test]
fn object_operators_merge_get_and_set_fields() {
    check(
        r#"{"a":{"x":1,"y.z":2},"b":{"x":3,"w":4},"n":null}"#,
        &[
            (r#"{"$mergeObjects":["$a","$b","$n"]}"#, r#"{"x":3,"y.z":2,"w":4}"#),
            (r#"{"$getField":{"field":"y.z","input":"$a"}}"#, "2"),
            (r#"{"$getField":"a"}"#, r#"{"x":1,"y.z":2}"#),
            (r#"{"$setField":{"field":"x","input":"$a","value":9}}"#, r#"{"x":9,"y.z":2}"#),
            (r#"{"$unsetField":{"field":"x","input":"$a"}}"#, r#"{"y.z":2}"#),
        ],
    );
}

#[test]
fn conversions_give_the_value_or_on_error() {
    check(
        r#"{"s":"12","f":1.9,"t":{"$date":"2020-02-29T12:30:00Z"},"id":{"$oid":"507f1f77bcf86cd799439011"},"n":null}"#,
        &[
            (r#"{"$toInt":"$s"}"#, "12"),
            (r#"{"$toInt":"$f"}"#, "1"),
            (r#"{"$toString":"$f"}"#, r#""1.9""#),
            (r#"{"$toString":1e20}"#, r#""1e+20""#),
            (r#"{"$toString":"$t"}"#, r#""2020-02-29T12:30:00.000Z""#),
            (r#"{"$toDate":"2020-02-29T12:30:00Z"}"#, r#"{"$date":"2020-02-29T12:30:00Z"}"#),
            (r#"{"$toDate":"$id"}"#, r#"{"$date":"2012-10-17T21:13:27Z"}"#),
            (r#"{"$toBool":"$s"}"#, "true"),
            (r#"{"$toDecimal":"1.10"}"#, r#"{"$numberDecimal":"1.10"}"#),
            (r#"{"$toObjectId":"507f1f77bcf86cd799439011"}"#, r#"{"$oid":"507f1f77bcf86cd799439011"}"#),
            (r#"{"$convert":{"input":"abc","to":"int","onError":-1}}"#, "-1"),
            (r#"{"$convert":{"input":"$n","to":"int","onNull":0}}"#, "0"),
            (r#"{"$convert":{"input":"7","to":18}}"#, "7"),
        ],
    );
    assert_eq!(code(r#"{"$toInt":"abc"}"#), ErrorCode::ConversionFailure);
    assert_eq!(code(r#"{"$toInt":3000000000}"#), ErrorCode::ConversionFailure);
}

#[test]
fn binary_data_is_converted_by_format_byte_order_and_subtype() {
    let binary = |base64: &str, subtype: &str| {
        format!(r#"{{"$binary":{{"base64":"{base64}","subType":"{subtype}"}}}}"#)
    };
    let (data, uuid) =
        (binary("3q2+7w==", "00"), binary("Djuw Y4q9TrOfn/TFn9MKYA==".replace(' ', "").as_str(), "04"));
    let text = "0e3bb063-8abd-4eb3-9f9f-f4c59fd30a60";
    let document = format!(
        r#"{{"data":{data},"uuid":{uuid},"text":"{text}","n":null,"f":{},"d":{}}}"#,
        binary("AADAPw==", "00"),
        binary("P/gAAAAAAAA=", "00")
    );
    let convert = |operands: &str| format!(r#"{{"$convert":{{{operands}}}}}"#);
    let cases: Vec<(String, String)> = [
        (r#""input":"$data","to":"string","format":"base64""#, r#""3q2+7w==""#),
        (r#""input":"$data","to":"string","format":"base64url""#, r#""3q2-7w""#),
        (r#""input":"$data","to":"string","format":"hex""#, r#""DEADBEEF""#),
        (r#""input":"$data","to":"string","format":"auto""#, r#""3q2+7w==""#),
        (r#""input":"$data","to":"string","format":"utf8","onError":"no""#, r#""no""#),
        (r#""input":"$data","to":"string","format":"uuid","onError":"no""#, r#""no""#),
        (r#""input":"$data","to":"binData""#, &data),
        (r#""input":"$data","to":{"type":"binData","subtype":4},"onError":"no""#, r#""no""#),
        (r#""input":"$data","to":"int""#, "-272716322"),
        (r#""input":"$data","to":"long","byteOrder":"big""#, "-559038737"),
        (r#""input":"$data","to":"decimal","onError":"no""#, r#""no""#),
        (r#""input":"$data","to":"bool""#, "true"),
        (r#""input":"$f","to":"double""#, "1.5"),
        (r#""input":"$d","to":"double","byteOrder":"big""#, "1.5"),
        (r#""input":"$d","to":"int","onError":"no""#, r#""no""#),
        (r#""input":"$uuid","to":"string","format":"uuid""#, &format!("\"{text}\"")),
        (r#""input":"$text","to":{"type":"binData","subtype":4},"format":"uuid""#, &uuid),
        (r#""input":"3q2-7w","to":"binData","format":"base64url""#, &data),
        (r#""input":"deadBEEF","to":{"type":5,"subtype":128},"format":"hex""#, &binary("3q2+7w==", "80")),
        (r#""input":"a","to":"binData","format":"utf8""#, &binary("YQ==", "00")),
        (r#""input":258,"to":"binData""#, &binary("AgEAAA==", "00")),
        (r#""input":258,"to":"binData","byteOrder":"big""#, &binary("AAABAg==", "00")),
        (r#""input":"$n","to":"binData","format":"nothing","onNull":1"#, "1"),
        (r#""input":"$n","to":null,"onNull":1"#, "1"),
        (r#""input":1,"to":null,"onNull":1"#, "null"),
        (r#""input":1,"to":"object","onError":"no""#, r#""no""#),
    ]
    .map(|(operands, expected)| (convert(operands), expected.to_owned()))
    .into_iter()
    .chain([
        (r#"{"$toUUID":"$text"}"#.to_owned(), uuid.clone()),
        (r#"{"$toUUID":"$uuid"}"#.to_owned(), uuid.clone()),
        (r#"{"$toUUID":"$n"}"#.to_owned(), "null".to_owned()),
        (r#"{"$toString":"$uuid"}"#.to_owned(), format!("\"{text}\"")),
        (r#"{"$toString":"$data"}"#.to_owned(), r#""3q2+7w==""#.to_owned()),
        (r#"{"$toInt":"$data"}"#.to_owned(), "-272716322".to_owned()),
    ])
    .collect();
    let cases: Vec<(&str, &str)> = cases.iter().map(|(expr, expected)| (&**expr, &**expected)).collect();
    check(&document, &cases);
    for (operands, expected) in [
        // Only what cannot be converted is left to `onError`.
        (r#""input":"YQ==","to":"binData","onError":0"#, ErrorCode::Location4341115),
        (r#""input":"YQ==","to":"binData","format":1,"onError":0"#, ErrorCode::Location4341114),
        (r#""input":"YQ==","to":"binData","format":"base32","onError":0"#, ErrorCode::Location4341125),
        (r#""input":1,"to":"binData","byteOrder":1,"onError":0"#, ErrorCode::Location9130001),
        (r#""input":1,"to":"binData","byteOrder":"middle","onError":0"#, ErrorCode::Location9130002),
        (r#""input":1,"to":{"type":"binData","subtype":1.5},"onError":0"#, ErrorCode::Location4341106),
        (r#""input":1,"to":{"type":"binData","subtype":100},"onError":0"#, ErrorCode::Location4341107),
        (r#""input":1,"to":{"type":"binData","subtype":"4"},"onError":0"#, ErrorCode::Location4341108),
        (r#""input":1,"to":{"subtype":4},"onError":0"#, ErrorCode::FailedToParse),
        (r#""input":1,"to":{"type":"int","subtyp":4},"onError":0"#, ErrorCode::FailedToParse),
        (r#""input":1,"to":"integer","onError":0"#, ErrorCode::BadValue),
        (r#""input":1,"to":100,"onError":0"#, ErrorCode::FailedToParse),
        (r#""input":1,"to":true,"onError":0"#, ErrorCode::FailedToParse),
        (r#""input":1,"to":"object""#, ErrorCode::ConversionFailure),
        (r#""input":"YQ==","to":"binData","format":"auto""#, ErrorCode::ConversionFailure),
    ] {
        assert_eq!(code(&convert(operands)), expected, "{operands}");
    }
    assert_eq!(code(r#"{"$toUUID":"no"}"#), ErrorCode::ConversionFailure);
    assert_eq!(code(r#"{"$toUUID":5.5}"#), ErrorCode::ConversionFailure);
}

#[test]
fn date_operators_use_the_time_zone() {
    check(
        r#"{"t":{"$date":"2020-03-29T00:30:15.125Z"},"n":null}"#,
        &[
            (r#"{"$year":"$t"}"#, "2020"),
            (r#"{"$hour":{"date":"$t","timezone":"Europe/Berlin"}}"#, "1"),
            (r#"{"$hour":{"date":"$t","timezone":"+0530"}}"#, "6"),
            (r#"{"$dayOfWeek":"$t"}"#, "1"),
            (r#"{"$dayOfYear":"$t"}"#, "89"),
            (r#"{"$week":"$t"}"#, "13"),
            (r#"{"$isoWeek":"$t"}"#, "13"),
            (r#"{"$millisecond":"$t"}"#, "125"),
            (r#"{"$dateToString":{"date":"$t"}}"#, r#""2020-03-29T00:30:15.125Z""#),
            (
                r#"{"$dateToString":{"date":"$t","format":"%d.%m.%Y %H:%M %z %j %b","timezone":"Europe/Berlin"}}"#,
                r#""29.03.2020 01:30 +0100 089 Mar""#,
            ),
            (r#"{"$dateToString":{"date":"$n","onNull":"-"}}"#, r#""-""#),
            (
                r#"{"$dateFromString":{"dateString":"29/02/2020","format":"%d/%m/%Y","timezone":"America/New_York"}}"#,
                r#"{"$date":"2020-02-29T05:00:00Z"}"#,
            ),
            (r#"{"$dateFromString":{"dateString":"bad","onError":0}}"#, "0"),
            // Daylight saving time begins that night, so adding a day adds 23 hours.
            (
                r#"{"$dateAdd":{"startDate":"$t","unit":"day","amount":1,"timezone":"Europe/Berlin"}}"#,
                r#"{"$date":"2020-03-29T23:30:15.125Z"}"#,
            ),
            (
                r#"{"$dateAdd":{"startDate":"$t","unit":"month","amount":-1}}"#,
                r#"{"$date":"2020-02-29T00:30:15.125Z"}"#,
            ),
            (
                r#"{"$dateSubtract":{"startDate":"$t","unit":"hour","amount":1}}"#,
                r#"{"$date":"2020-03-28T23:30:15.125Z"}"#,
            ),
            (
                r#"{"$dateDiff":{"startDate":"$t","endDate":{"$dateAdd":{"startDate":"$t","unit":"day","amount":40}},"unit":"month"}}"#,
                "2",
            ),
            (
                r#"{"$dateDiff":{"startDate":"$t","endDate":{"$dateAdd":{"startDate":"$t","unit":"day","amount":1}},"unit":"week","startOfWeek":"monday"}}"#,
                "1",
            ),
            (r#"{"$dateTrunc":{"date":"$t","unit":"month"}}"#, r#"{"$date":"2020-03-01T00:00:00Z"}"#),
            (
                r#"{"$dateTrunc":{"date":"$t","unit":"week","startOfWeek":"monday"}}"#,
                r#"{"$date":"2020-03-23T00:00:00Z"}"#,
            ),
            (
                r#"{"$dateTrunc":{"date":"$t","unit":"minute","binSize":15}}"#,
                r#"{"$date":"2020-03-29T00:30:00Z"}"#,
            ),
            (
                r#"{"$dateTrunc":{"date":"$t","unit":"day","timezone":"Europe/Berlin"}}"#,
                r#"{"$date":"2020-03-28T23:00:00Z"}"#,
            ),
            (
                r#"{"$dateFromParts":{"year":2020,"month":14,"day":1,"hour":25}}"#,
                r#"{"$date":"2021-02-02T01:00:00Z"}"#,
            ),
            (
                r#"{"$dateToParts":{"date":"$t","iso8601":true}}"#,
                r#"{"isoWeekYear":2020,"isoWeek":13,"isoDayOfWeek":7,"hour":0,"minute":30,"second":15,"millisecond":125}"#,
            ),
        ],
    );
    assert_eq!(code(r#"{"$hour":{"date":"$$NOW","timezone":"Mars/Base"}}"#), ErrorCode::Location40485);
}

#[test]
fn no_operand_makes_an_operator_panic() {
    let unusual = [
        "null",
        "\"\"",
        "\"$x\"",
        "-1",
        "1e308",
        "[]",
        "{}",
        "{\"$numberDecimal\":\"NaN\"}",
        "9223372036854775807",
        "{\"$numberDecimal\":\"9.9E+6144\"}",
        "{\"$date\":{\"$numberLong\":\"9223372036854775807\"}}",
        "[[1,2,3]]",
        "true",
    ];
    for def in table::all() {
        let mut tried: Vec<String> = unusual.iter().map(|a| format!("{{\"{}\":{a}}}", def.name)).collect();
        for a in unusual {
            tried.extend(unusual.iter().map(|b| format!("{{\"{}\":[{a},{b}]}}", def.name)));
            tried.push(format!("{{\"{}\":[{a},{a},{a}]}}", def.name));
            if let table::Operands::Named(all) | table::Operands::NamedOr(all, ..) = def.operands {
                for unusual in unusual {
                    let fields: Vec<String> = all
                        .operands
                        .iter()
                        .enumerate()
                        .map(|(at, (name, _))| match (*name, at) {
                            ("unit", _) => "\"unit\":\"month\"".to_owned(),
                            ("timezone", _) => "\"timezone\":\"Europe/Berlin\"".to_owned(),
                            ("startOfWeek", _) => "\"startOfWeek\":\"sun\"".to_owned(),
                            ("isoWeekYear", _) => "\"isoDayOfWeek\":2".to_owned(),
                            ("isoDayOfWeek", _) => "\"isoWeek\":2".to_owned(),
                            ("isoWeek", _) => String::new(),
                            (name, 0) => format!("\"{name}\":{a}"),
                            (name, _) => format!("\"{name}\":{unusual}"),
                        })
                        .filter(|field| !field.is_empty())
                        .collect();
                    tried.push(format!("{{\"{}\":{{{}}}}}", def.name, fields.join(",")));
                }
            }
        }
        for expr in tried {
            // A result and an error are both fine.
            let _ = eval_at(r#"{"x":[1]}"#, &expr);
        }
    }
}
